package command

// Enter is enter, for tests.
var Enter = enter

// ExecIn runs commands in the namespaces of a process other than PID 1.
func ExecIn(process string) Exec { return Exec{process: process} }
