// go-redis with its default settings against the server at HOST:PORT. The checks: ../README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	db     *redis.Client
	prefix string
)

func key(name string) string { return prefix + ":" + name }

// failure is what a check panics with.
type failure string

func fail(format string, args ...any) {
	_, _, line, _ := runtime.Caller(2)
	panic(failure(fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)))
}

// is demands that a command was answered, and with this value.
func is[T any](want T, cmd interface{ Result() (T, error) }) {
	got, err := cmd.Result()
	if err != nil {
		fail("%v", err)
	}
	if !reflect.DeepEqual(got, want) {
		fail("got %v, want %v", got, want)
	}
}

// absent demands the nil reply.
func absent[T any](cmd interface{ Result() (T, error) }) {
	if got, err := cmd.Result(); !errors.Is(err, redis.Nil) {
		fail("got %v, %v, want nil", got, err)
	}
}

// refused demands an error whose text begins so.
func refused[T any](text string, cmd interface{ Result() (T, error) }) {
	if got, err := cmd.Result(); err == nil || !strings.HasPrefix(err.Error(), text) {
		fail("got %v, %v, want the error %q", got, err, text)
	}
}

func truth(ok bool, what any) {
	if !ok {
		fail("%v", what)
	}
}

func allBytes() string {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(i)
	}
	return string(value)
}

func handshake() {
	is("PONG", db.Ping(ctx))
	hello, err := db.Do(ctx, "HELLO").Result()
	truth(err == nil, err)
	fields, ok := hello.(map[any]any)
	truth(ok && fields["proto"] == int64(3), hello)
	id, err := db.ClientID(ctx).Result()
	truth(err == nil && id > 0, err)
	named := redis.NewClient(&redis.Options{Addr: os.Args[1], ClientName: "larder-test"})
	defer named.Close()
	is("larder-test", named.ClientGetName(ctx))
}

func stringValues() {
	k := key("string")
	absent(db.Get(ctx, k))
	is("OK", db.Set(ctx, k, "value", 0))
	is("value", db.Get(ctx, k))
	is(false, db.SetNX(ctx, k, "other", 0))
	is(false, db.SetXX(ctx, key("absent"), "other", 0))
	is(true, db.SetXX(ctx, k, "value 2", 0))
	is(int64(8), db.Append(ctx, k, "!"))
	is("value", db.GetRange(ctx, k, 0, 4))
	is(int64(8), db.StrLen(ctx, k))
	is("value 2!", db.GetSet(ctx, k, "3"))
	is("3", db.GetDel(ctx, k))
	absent(db.Get(ctx, k))
}

func many() {
	var pairs, values []any
	var keys []string
	for i := range 50 {
		if i == 7 {
			keys, values = append(keys, key("absent")), append(values, nil)
		}
		k, v := key(fmt.Sprint("many", i)), fmt.Sprint("v", i)
		pairs, keys, values = append(pairs, k, v), append(keys, k), append(values, v)
	}
	is("OK", db.MSet(ctx, pairs...))
	is(values, db.MGet(ctx, keys...))
}

func expiry() {
	k := key("expiry")
	within := func(cmd *redis.DurationCmd, low, high time.Duration) {
		got, err := cmd.Result()
		if err != nil || got < low*time.Second || got > high*time.Second {
			fail("%v, %v", got, err)
		}
	}
	is("OK", db.Set(ctx, k, "1", 100*time.Second))
	within(db.TTL(ctx, k), 98, 100)
	is(true, db.Expire(ctx, k, 50*time.Second))
	within(db.TTL(ctx, k), 48, 50)
	is(true, db.Persist(ctx, k))
	is(time.Duration(-1), db.TTL(ctx, k))
	is(time.Duration(-2), db.TTL(ctx, key("absent")))
	is(true, db.PExpire(ctx, k, 60*time.Millisecond))
	end := time.Now().Add(20 * time.Second)
	for db.Get(ctx, k).Err() == nil {
		truth(time.Now().Before(end), "does not expire")
		time.Sleep(5 * time.Millisecond)
	}
	is(int64(0), db.Exists(ctx, k))
}

func deletion() {
	a, b := key("a"), key("b")
	is("OK", db.MSet(ctx, a, "1", b, "2"))
	is(int64(2), db.Exists(ctx, a, b, key("absent")))
	is(int64(1), db.Del(ctx, a, key("absent")))
	absent(db.Get(ctx, a))
	is(int64(1), db.Unlink(ctx, b))
	is(int64(0), db.Exists(ctx, a, b))
}

func counters() {
	k := key("counter")
	is(int64(1), db.Incr(ctx, k))
	is(int64(42), db.IncrBy(ctx, k, 41))
	is(int64(41), db.Decr(ctx, k))
	is("41", db.Get(ctx, k))
	is(41.5, db.IncrByFloat(ctx, k, 0.5))
	refused("ERR value is not an integer or out of range", db.Incr(ctx, k))
}

func binary() {
	k, value := key("binary")+allBytes(), strings.Repeat(allBytes(), 3)
	is("OK", db.Set(ctx, k, value, 0))
	is(value, db.Get(ctx, k))
	is("OK", db.Set(ctx, k, "", 0))
	is("", db.Get(ctx, k))
}

func large() {
	k, value := key("large"), bytes.Repeat([]byte(allBytes()), 8*1024*1024/256)
	is("OK", db.Set(ctx, k, value, 0))
	got, err := db.Get(ctx, k).Bytes()
	truth(err == nil && bytes.Equal(got, value), err)
	is(int64(1), db.Del(ctx, k))
}

func pipeline() {
	pipe := db.Pipeline()
	for i := range 500 {
		pipe.Set(ctx, key(fmt.Sprint("pipe", i)), i, 0)
		pipe.Get(ctx, key(fmt.Sprint("pipe", i)))
	}
	cmds, err := pipe.Exec(ctx)
	truth(err == nil && len(cmds) == 1000, err)
	for i := range 500 {
		is("OK", cmds[2*i].(*redis.StatusCmd))
		is(strconv.Itoa(i), cmds[2*i+1].(*redis.StringCmd))
	}
	k := key("word")
	pipe = db.Pipeline()
	set, incr, get := pipe.Set(ctx, k, "x", 0), pipe.Incr(ctx, k), pipe.Get(ctx, k)
	_, err = pipe.Exec(ctx)
	truth(err != nil, "the error in a pipeline was lost")
	is("OK", set)
	refused("ERR value is not an integer", incr)
	is("x", get)
}

func transaction() {
	k := key("balance")
	is("OK", db.Set(ctx, k, 10, 0))
	pipe := db.TxPipeline()
	incr, get, mget := pipe.IncrBy(ctx, k, 5), pipe.Get(ctx, k), pipe.MGet(ctx, k, key("absent"))
	_, err := pipe.Exec(ctx)
	truth(err == nil, err)
	is(int64(15), incr)
	is("15", get)
	is([]any{"15", nil}, mget)

	for _, meanwhile := range []bool{true, false} {
		err := db.Watch(ctx, func(tx *redis.Tx) error {
			seen, err := tx.Get(ctx, k).Int()
			if err != nil {
				return err
			}
			if meanwhile {
				is("OK", db.Set(ctx, k, 100, 0)) // on another connection
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Set(ctx, k, seen*2, 0).Err()
			})
			return err
		}, k)
		truth(errors.Is(err, redis.TxFailedErr) == meanwhile && (err == nil) != meanwhile, err)
	}
	is("200", db.Get(ctx, k))
}

func errorReplies() {
	refused("ERR unknown command 'NOSUCHCOMMAND'", db.Do(ctx, "NOSUCHCOMMAND", "a"))
	is("PONG", db.Ping(ctx))
}

func parallel() {
	problems := make(chan any, 16)
	var group sync.WaitGroup
	for worker := range 16 {
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() {
				if problem := recover(); problem != nil {
					problems <- problem
				}
			}()
			for i := range 50 {
				k := key(fmt.Sprint("parallel", worker, ":", i))
				truth(db.Incr(ctx, key("parallel")).Err() == nil, "INCR")
				is("OK", db.Set(ctx, k, i, 0))
				is(strconv.Itoa(i), db.Get(ctx, k))
			}
		}()
	}
	group.Wait()
	close(problems)
	for problem := range problems {
		panic(problem)
	}
	is("800", db.Get(ctx, key("parallel")))
}

// passes runs a check and reports it.
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

func main() {
	prefix = os.Args[2]
	db = redis.NewClient(&redis.Options{Addr: os.Args[1]})
	defer db.Close()
	checks := []struct {
		name  string
		check func()
	}{
		{"handshake", handshake}, {"strings", stringValues}, {"many", many}, {"expiry", expiry},
		{"delete", deletion}, {"counters", counters}, {"binary", binary}, {"large", large},
		{"pipeline", pipeline}, {"transaction", transaction}, {"errors", errorReplies}, {"parallel", parallel},
	}
	failed := 0
	for _, c := range checks {
		if !passes(c.name, c.check) {
			failed++
		}
	}
	fmt.Printf("go-redis %s: %d passed, %d failed\n", redis.Version(), len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
