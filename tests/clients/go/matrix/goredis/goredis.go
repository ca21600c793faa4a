// Package goredis demands replies of go-redis.
package goredis

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	. "larder/tests/clients/go/matrix/check"
)

// Command is one that was sent.
type Command[T any] interface{ Result() (T, error) }

// Is demands that a command was answered, and with this value.
func Is[T any](want T, command Command[T]) {
	Equal(want)(command.Result())
}

// Absent demands the nil reply.
func Absent[T any](command Command[T]) {
	if got, err := command.Result(); !errors.Is(err, redis.Nil) {
		Fail("got %v, %v, want nil", got, err)
	}
}

// Refused demands an error whose text begins so.
func Refused[T any](text string, command Command[T]) {
	if got, err := command.Result(); err == nil || !strings.HasPrefix(err.Error(), text) {
		Fail("got %v, %v, want the error %q", got, err, text)
	}
}
