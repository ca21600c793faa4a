package check

import (
	"fmt"
	"os"
	"strings"
)

// Reader is a client with a client-side cache, and a plain one beside it.
type Reader struct {
	// Get reads through the cache; false: there is no such key.
	Get func(key string) (string, bool)
	// Do sends a command past the cache, on another connection, and returns its reply as text.
	Do func(command ...string) string
}

// Cache goes through the checks of client-side caching and ends the program.
func Cache(library string, r Reader) {
	checks := []struct {
		name  string
		check func()
	}{{"local", r.local}, {"change", r.change}, {"expiry", r.expiry}, {"many", r.many}, {"flush", r.flush}}
	failed := 0
	for _, each := range checks {
		if !passes(each.name, each.check) {
			failed++
		}
	}
	fmt.Printf("%s: %d passed, %d failed\n", library, len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}

func (r Reader) is(key, want string) bool {
	got, found := r.Get(key)
	return found && got == want
}

// calls is how many GETs the server has been sent.
func (r Reader) calls() string {
	for _, line := range strings.Split(r.Do("INFO", "commandstats"), "\r\n") {
		if rest, ok := strings.CutPrefix(line, "cmdstat_get:calls="); ok {
			return strings.Split(rest, ",")[0]
		}
	}
	return "0"
}

// A value is asked for once.
func (r Reader) local() {
	k := Key("local")
	r.Do("SET", k, "value")
	Until("the value to be read", func() bool { return r.is(k, "value") })
	// What was read while the change was on its way need not be kept.
	Until("reads to stay here", func() bool {
		before := r.calls()
		for range 50 {
			True(r.is(k, "value"), "not the value")
		}
		return r.calls() == before
	})
}

// Whatever changes it is heard of.
func (r Reader) change() {
	k := Key("change")
	for i, command := range [][]string{{"SET", k, "1"}, {"INCR", k}, {"APPEND", k, "0"}, {"GETSET", k, "4"}} {
		r.Do(command...)
		want := []string{"1", "2", "20", "4"}[i]
		Until("the change to be seen", func() bool { return r.is(k, want) })
	}
	r.Do("DEL", k)
	Until("the deletion to be seen", func() bool { _, found := r.Get(k); return !found })
	r.Do("SET", k, "again")
	Until("the new key to be seen", func() bool { return r.is(k, "again") })
}

func (r Reader) expiry() {
	k := Key("expiry")
	r.Do("SET", k, "v")
	Until("the value to be read", func() bool { return r.is(k, "v") })
	r.Do("PEXPIRE", k, "50")
	Until("the expiry to be seen", func() bool { _, found := r.Get(k); return !found })
}

func (r Reader) many() {
	for _, value := range []string{"old", "new"} {
		mset := []string{"MSET"}
		for i := range 200 {
			mset = append(mset, Key(fmt.Sprint("many", i)), value)
		}
		r.Do(mset...)
		for i := range 200 {
			Until("all changes to be seen", func() bool { return r.is(Key(fmt.Sprint("many", i)), value) })
		}
	}
}

func (r Reader) flush() {
	k := Key("flush")
	r.Do("SET", k, "v")
	Until("the value to be read", func() bool { return r.is(k, "v") })
	r.Do("FLUSHALL")
	Until("the flush to be seen", func() bool { _, found := r.Get(k); return !found })
}
