package cli

import (
	"errors"
	"strings"
)

// named puts the name of what an error is about in front of each of its lines,
// where it does not stand there already.
func named(name string, err error) error {
	texts := strings.Split(err.Error(), "\n")
	for i, text := range texts {
		if !strings.HasPrefix(text, name+":") {
			texts[i] = name + ": " + text
		}
	}
	return errors.New(strings.Join(texts, "\n"))
}

// ended is how a command ends that has printed what went wrong: with a code and
// no more words.
func ended(code int) error {
	if code == exitOK {
		return nil
	}
	return quiet{code}
}
