// Command image writes to standard output an archive that holds Keel as an image
// for containers: an OCI image layout in a tar. make image runs it.
//
// The same input gives the same bytes. It reads binaries, and needs neither a
// container engine nor uid 0.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "image: %v\n", err)
		os.Exit(1)
	}
}

// run writes the archive that the arguments ask for.
func run(args []string, out io.Writer) error {
	var r release
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.StringVar(&r.name, "name", "docker.io/library/keel", "the image's name, with the registry")
	flags.StringVar(&r.version, "version", "", "of Keel; also the image's tag")
	flags.StringVar(&r.commit, "commit", "", "that Keel is built from")
	seconds := flags.Int64("time", 0, "of the commit, in seconds since 1970")
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: image -version V -commit C -time SECONDS ARCH=BINARY… >FILE")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.created = time.Unix(*seconds, 0).UTC()
	if err := r.check(); err != nil {
		return err
	}
	var images []image
	for _, arg := range flags.Args() {
		arch, binary, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("argument %q: want ARCH=BINARY, as in amd64=bin/keel", arg)
		}
		if slices.ContainsFunc(images, func(im image) bool { return im.manifest.Platform.Architecture == arch }) {
			return fmt.Errorf("argument %q: there is a binary for %s already", arg, arch)
		}
		im, err := load(r, arch, binary)
		if err != nil {
			return err
		}
		images = append(images, im)
	}
	if len(images) == 0 {
		return fmt.Errorf("there is no binary to put into an image: want ARCH=BINARY, as in amd64=bin/keel")
	}
	return archive(out, r, images)
}

// load makes the image for one architecture.
func load(r release, arch, binary string) (image, error) {
	keel, err := os.ReadFile(binary)
	if err != nil {
		return image{}, err
	}
	if err := static(keel, arch); err != nil {
		return image{}, fmt.Errorf("%s: %w", binary, err)
	}
	return newImage(r, arch, keel)
}
