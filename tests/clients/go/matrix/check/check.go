// Package check goes through checks (../../../README.md) and reports them.
package check

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"time"
)

// Add is a script: adds a number to a key.
const Add = "return redis.call('INCRBY', KEYS[1], ARGV[1])"

var answers = bufio.NewReader(os.Stdin)

// Address is the server's, HOST:PORT.
func Address() string { return os.Args[1] }

// Key is a name with this run's prefix.
func Key(name string) string { return os.Args[2] + ":" + name }

// failure is what a check panics with.
type failure string

// Fail ends a check.
func Fail(format string, args ...any) {
	// The outermost line of the check itself: the frame before this package's again.
	where := ""
	for skip := 1; ; skip++ {
		_, file, line, ok := runtime.Caller(skip)
		if !ok || where != "" && !strings.HasSuffix(file, "main.go") {
			break
		}
		if strings.HasSuffix(file, "main.go") {
			where = fmt.Sprintf("line %d: ", line)
		}
	}
	panic(failure(where + fmt.Sprintf(format, args...)))
}

// Equal demands a value and no error.
func Equal[T any](want T) func(T, error) {
	return func(got T, err error) {
		if err != nil {
			Fail("%v", err)
		}
		if !reflect.DeepEqual(got, want) {
			Fail("got %v, want %v", got, want)
		}
	}
}

// True demands that something holds; what is said if it does not.
func True(ok bool, what any) {
	if !ok {
		Fail("%v", what)
	}
}

// Until waits until something is done.
func Until(what string, done func() bool) {
	end := time.Now().Add(20 * time.Second)
	for !done() {
		True(time.Now().Before(end), "waited too long: "+what)
		time.Sleep(5 * time.Millisecond)
	}
}

// Next is what arrives on a channel.
func Next[T any](arrivals <-chan T) T {
	select {
	case arrival := <-arrivals:
		return arrival
	case <-time.After(20 * time.Second):
		Fail("nothing arrives")
		panic("unreachable")
	}
}

// ServerIsBackAfter has the server gone ("restart" in good order, "crash") and waits until it is back.
func ServerIsBackAfter(how string) {
	fmt.Println(how)
	if line, err := answers.ReadString('\n'); line != "done\n" {
		Fail("told %q, %v", line, err)
	}
}

// The checks of the matrix, in their order.
var names = [...]string{
	"connect", "strings", "expiry", "pipeline", "transaction", "pubsub", "blocking_pop", "hash", "script", "reconnect",
}

// Matrix goes through them and ends the program.
func Matrix(library string, checks [len(names)]func()) { Run(library, names[:], checks[:]) }

// Run goes through checks by name and ends the program.
func Run(library string, names []string, checks []func()) {
	failed := 0
	for i, check := range checks {
		if !passes(names[i], check) {
			failed++
		}
	}
	fmt.Printf("%s: %d passed, %d failed\n", library, len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func passes(name string, check func()) (ok bool) {
	defer func() {
		switch problem := recover().(type) {
		case nil:
			ok = true
			fmt.Println("ok", name)
		case failure:
			fmt.Printf("FAILED %s, %s\n", name, problem)
		default:
			panic(problem)
		}
	}()
	check()
	return
}
