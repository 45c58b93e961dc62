# PID 1 of a test host until it becomes systemd. It runs in new namespaces and
# mounts what a container manager would: see systemd's CONTAINER_INTERFACE.
# OVERLAY, ROOT and NAME come from package machine.
mount --make-rprivate /
mount -t overlay -o "$OVERLAY" overlay "$ROOT"
cd "$ROOT"
mount -t proc -o nosuid,nodev,noexec proc proc
# What is in these belongs to the whole machine.
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro,nosuid,nodev,noexec proc/sys
[ ! -e proc/sysrq-trigger ] || mount --bind /dev/null proc/sysrq-trigger
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs sys
mount -t cgroup2 -o nosuid,nodev,noexec cgroup2 sys/fs/cgroup
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs run
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs tmp
mount -t tmpfs -o nosuid,mode=755 tmpfs dev
for d in null zero full random urandom tty; do
	: >dev/$d
	mount --bind /dev/$d dev/$d
done
mkdir dev/pts dev/shm
mount -t devpts -o nosuid,noexec,newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
ln -s /proc/self/fd/0 dev/stdin
ln -s /proc/self/fd/1 dev/stdout
ln -s /proc/self/fd/2 dev/stderr
echo "$NAME" >etc/hostname
hostname "$NAME"
mkdir -p run/host-old
pivot_root . run/host-old
umount -l /run/host-old
rmdir /run/host-old
mount --make-rshared /
exec env -i container=other PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=no
