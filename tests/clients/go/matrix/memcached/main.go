// gomemcache, with a longer deadline than its 500 ms: memcached HOST:PORT PREFIX. The checks: ../../../README.md.
package main

import (
	"errors"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	. "larder/tests/clients/go/matrix/check"
)

var client *memcache.Client

func another() *memcache.Client {
	other := memcache.New(Address())
	other.Timeout = 20 * time.Second
	return other
}

func item(name, value string) *memcache.Item {
	return &memcache.Item{Key: Key(name), Value: []byte(value)}
}

// got demands a value.
func got(want, name string) {
	item, err := client.Get(Key(name))
	True(err == nil && string(item.Value) == want, name)
}

// answers demands an error, or none.
func answers(want, err error) {
	True(errors.Is(err, want), err)
}

func connect() { answers(nil, client.Ping()) }

func stringValues() {
	_, err := client.Get(Key("string"))
	answers(memcache.ErrCacheMiss, err)
	answers(memcache.ErrNotStored, client.Replace(item("string", "x")))
	answers(nil, client.Add(item("string", "b")))
	answers(memcache.ErrNotStored, client.Add(item("string", "x")))
	answers(nil, client.Append(item("string", "c")))
	answers(nil, client.Prepend(item("string", "a")))
	got("abc", "string")
	answers(nil, client.Set(item("string", "value")))
	got("value", "string")
}

func many() {
	want, keys := map[string]string{}, []string{Key("absent")}
	for i := range 50 {
		name := "many" + strconv.Itoa(i)
		answers(nil, client.Set(item(name, "v"+strconv.Itoa(i))))
		want[Key(name)] = "v" + strconv.Itoa(i)
		keys = append(keys, Key(name))
	}
	items, err := client.GetMulti(keys)
	answers(nil, err)
	found := map[string]string{}
	for key, item := range items {
		found[key] = string(item.Value)
	}
	True(reflect.DeepEqual(found, want), found)
}

func expiry() {
	short := item("expiry", "1")
	short.Expiration = 1
	answers(nil, client.Set(short))
	answers(nil, client.Touch(Key("expiry"), 100))
	touched, err := client.GetAndTouch(Key("expiry"), 1)
	True(err == nil && string(touched.Value) == "1", err)
	Until("the key to expire", func() bool {
		_, err := client.Get(Key("expiry"))
		return errors.Is(err, memcache.ErrCacheMiss)
	})
	answers(memcache.ErrCacheMiss, client.Touch(Key("expiry"), 100))
}

func deleted() {
	answers(nil, client.Set(item("deleted", "1")))
	answers(nil, client.Delete(Key("deleted")))
	answers(memcache.ErrCacheMiss, client.Delete(Key("deleted")))
}

func counters() {
	k := Key("counter")
	_, err := client.Increment(k, 1)
	answers(memcache.ErrCacheMiss, err)
	answers(nil, client.Set(item("counter", "1")))
	Equal(uint64(42))(client.Increment(k, 41))
	Equal(uint64(0))(client.Decrement(k, 100))
	Equal(uint64(7))(client.Increment(k, 7))
	answers(nil, client.Set(item("word", "x")))
	_, err = client.Increment(Key("word"), 1)
	True(err != nil && strings.Contains(err.Error(), "non-numeric"), err)
}

func cas() {
	answers(nil, client.Set(item("cas", "old")))
	seen, err := client.Get(Key("cas"))
	answers(nil, err)
	answers(nil, another().Set(item("cas", "other")))
	seen.Value = []byte("new")
	answers(memcache.ErrCASConflict, client.CompareAndSwap(seen))
	seen, err = client.Get(Key("cas"))
	answers(nil, err)
	seen.Value = []byte("new")
	answers(nil, client.CompareAndSwap(seen))
	got("new", "cas")
	answers(nil, client.Delete(Key("cas")))
	answers(memcache.ErrCacheMiss, client.CompareAndSwap(seen))
}

func binary() {
	var all []byte
	for i := range 768 {
		all = append(all, byte(i))
	}
	answers(nil, client.Set(item("binary", string(all))))
	got(string(all), "binary")
	answers(nil, client.Set(item("binary", "")))
	got("", "binary")
}

func large() {
	value := strings.Repeat("0123456789abcde\n", 62_000)
	answers(nil, client.Set(item("large", value)))
	got(value, "large")
}

func refusals() {
	answers(memcache.ErrMalformedKey, client.Set(item(strings.Repeat("long", 70), "1")))
	answers(nil, client.Ping())
}

func parallel() {
	answers(nil, client.Set(item("parallel", "0")))
	var all sync.WaitGroup
	failures := make(chan error, 1600)
	for worker := range 16 {
		all.Go(func() {
			for i := range 50 {
				name := "parallel" + strconv.Itoa(worker) + ":" + strconv.Itoa(i)
				_, counted := client.Increment(Key("parallel"), 1)
				failures <- errors.Join(counted, client.Set(item(name, strconv.Itoa(i))))
			}
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		answers(nil, err)
	}
	got("800", "parallel")
	got("49", "parallel15:49")
}

func flush() {
	answers(nil, client.FlushAll())
	_, err := client.Get(Key("string"))
	answers(memcache.ErrCacheMiss, err)
}

func main() {
	client = another()
	library := "gomemcache"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if strings.HasSuffix(module.Path, "/gomemcache") {
				library += " " + module.Version
			}
		}
	}
	Run(library, []string{"connect", "strings", "many", "expiry", "delete", "counters", "cas", "binary", "large", "errors", "parallel", "flush"},
		[]func(){connect, stringValues, many, expiry, deleted, counters, cas, binary, large, refusals, parallel, flush})
}
