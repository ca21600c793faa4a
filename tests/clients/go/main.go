// go-redis with its default settings against the server at HOST:PORT. The checks: ../README.md.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	. "larder/tests/clients/go/matrix/check"
	. "larder/tests/clients/go/matrix/goredis"
)

var (
	ctx = context.Background()
	db  *redis.Client
)

func allBytes() string {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(i)
	}
	return string(value)
}

func handshake() {
	Is("PONG", db.Ping(ctx))
	hello, err := db.Do(ctx, "HELLO").Result()
	True(err == nil, err)
	fields, ok := hello.(map[any]any)
	True(ok && fields["proto"] == int64(3), hello)
	id, err := db.ClientID(ctx).Result()
	True(err == nil && id > 0, err)
	named := redis.NewClient(&redis.Options{Addr: Address(), ClientName: "larder-test"})
	defer named.Close()
	Is("larder-test", named.ClientGetName(ctx))
}

func stringValues() {
	k := Key("string")
	Absent(db.Get(ctx, k))
	Is("OK", db.Set(ctx, k, "value", 0))
	Is("value", db.Get(ctx, k))
	Is(false, db.SetNX(ctx, k, "other", 0))
	Is(false, db.SetXX(ctx, Key("absent"), "other", 0))
	Is(true, db.SetXX(ctx, k, "value 2", 0))
	Is(int64(8), db.Append(ctx, k, "!"))
	Is("value", db.GetRange(ctx, k, 0, 4))
	Is(int64(8), db.StrLen(ctx, k))
	Is("value 2!", db.GetSet(ctx, k, "3"))
	Is("3", db.GetDel(ctx, k))
	Absent(db.Get(ctx, k))
}

func many() {
	var pairs, values []any
	var keys []string
	for i := range 50 {
		if i == 7 {
			keys, values = append(keys, Key("absent")), append(values, nil)
		}
		k, v := Key(fmt.Sprint("many", i)), fmt.Sprint("v", i)
		pairs, keys, values = append(pairs, k, v), append(keys, k), append(values, v)
	}
	Is("OK", db.MSet(ctx, pairs...))
	Is(values, db.MGet(ctx, keys...))
}

func expiry() {
	k := Key("expiry")
	within := func(cmd *redis.DurationCmd, low, high time.Duration) {
		got, err := cmd.Result()
		if err != nil || got < low*time.Second || got > high*time.Second {
			Fail("%v, %v", got, err)
		}
	}
	Is("OK", db.Set(ctx, k, "1", 100*time.Second))
	within(db.TTL(ctx, k), 98, 100)
	Is(true, db.Expire(ctx, k, 50*time.Second))
	within(db.TTL(ctx, k), 48, 50)
	Is(true, db.Persist(ctx, k))
	Is(time.Duration(-1), db.TTL(ctx, k))
	Is(time.Duration(-2), db.TTL(ctx, Key("absent")))
	Is(true, db.PExpire(ctx, k, 60*time.Millisecond))
	end := time.Now().Add(20 * time.Second)
	for db.Get(ctx, k).Err() == nil {
		True(time.Now().Before(end), "does not expire")
		time.Sleep(5 * time.Millisecond)
	}
	Is(int64(0), db.Exists(ctx, k))
}

func deletion() {
	a, b := Key("a"), Key("b")
	Is("OK", db.MSet(ctx, a, "1", b, "2"))
	Is(int64(2), db.Exists(ctx, a, b, Key("absent")))
	Is(int64(1), db.Del(ctx, a, Key("absent")))
	Absent(db.Get(ctx, a))
	Is(int64(1), db.Unlink(ctx, b))
	Is(int64(0), db.Exists(ctx, a, b))
}

func counters() {
	k := Key("counter")
	Is(int64(1), db.Incr(ctx, k))
	Is(int64(42), db.IncrBy(ctx, k, 41))
	Is(int64(41), db.Decr(ctx, k))
	Is("41", db.Get(ctx, k))
	Is(41.5, db.IncrByFloat(ctx, k, 0.5))
	Refused("ERR value is not an integer or out of range", db.Incr(ctx, k))
}

func binary() {
	k, value := Key("binary")+allBytes(), strings.Repeat(allBytes(), 3)
	Is("OK", db.Set(ctx, k, value, 0))
	Is(value, db.Get(ctx, k))
	Is("OK", db.Set(ctx, k, "", 0))
	Is("", db.Get(ctx, k))
}

func large() {
	k, value := Key("large"), bytes.Repeat([]byte(allBytes()), 8*1024*1024/256)
	Is("OK", db.Set(ctx, k, value, 0))
	got, err := db.Get(ctx, k).Bytes()
	True(err == nil && bytes.Equal(got, value), err)
	Is(int64(1), db.Del(ctx, k))
}

func pipeline() {
	pipe := db.Pipeline()
	for i := range 500 {
		pipe.Set(ctx, Key(fmt.Sprint("pipe", i)), i, 0)
		pipe.Get(ctx, Key(fmt.Sprint("pipe", i)))
	}
	cmds, err := pipe.Exec(ctx)
	True(err == nil && len(cmds) == 1000, err)
	for i := range 500 {
		Is("OK", cmds[2*i].(*redis.StatusCmd))
		Is(strconv.Itoa(i), cmds[2*i+1].(*redis.StringCmd))
	}
	k := Key("word")
	pipe = db.Pipeline()
	set, incr, get := pipe.Set(ctx, k, "x", 0), pipe.Incr(ctx, k), pipe.Get(ctx, k)
	_, err = pipe.Exec(ctx)
	True(err != nil, "the error in a pipeline was lost")
	Is("OK", set)
	Refused("ERR value is not an integer", incr)
	Is("x", get)
}

func transaction() {
	k := Key("balance")
	Is("OK", db.Set(ctx, k, 10, 0))
	pipe := db.TxPipeline()
	incr, get, mget := pipe.IncrBy(ctx, k, 5), pipe.Get(ctx, k), pipe.MGet(ctx, k, Key("absent"))
	_, err := pipe.Exec(ctx)
	True(err == nil, err)
	Is(int64(15), incr)
	Is("15", get)
	Is([]any{"15", nil}, mget)

	for _, meanwhile := range []bool{true, false} {
		err := db.Watch(ctx, func(tx *redis.Tx) error {
			seen, err := tx.Get(ctx, k).Int()
			if err != nil {
				return err
			}
			if meanwhile {
				Is("OK", db.Set(ctx, k, 100, 0)) // on another connection
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				return pipe.Set(ctx, k, seen*2, 0).Err()
			})
			return err
		}, k)
		True(errors.Is(err, redis.TxFailedErr) == meanwhile && (err == nil) != meanwhile, err)
	}
	Is("200", db.Get(ctx, k))
}

func errorReplies() {
	Refused("ERR unknown command 'NOSUCHCOMMAND'", db.Do(ctx, "NOSUCHCOMMAND", "a"))
	Is("PONG", db.Ping(ctx))
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
				k := Key(fmt.Sprint("parallel", worker, ":", i))
				True(db.Incr(ctx, Key("parallel")).Err() == nil, "INCR")
				Is("OK", db.Set(ctx, k, i, 0))
				Is(strconv.Itoa(i), db.Get(ctx, k))
			}
		}()
	}
	group.Wait()
	close(problems)
	for problem := range problems {
		panic(problem)
	}
	Is("800", db.Get(ctx, Key("parallel")))
}

func main() {
	db = redis.NewClient(&redis.Options{Addr: Address()})
	defer db.Close()
	Run("go-redis "+redis.Version(), []string{
		"handshake", "strings", "many", "expiry", "delete", "counters",
		"binary", "large", "pipeline", "transaction", "errors", "parallel",
	}, []func(){
		handshake, stringValues, many, expiry, deletion, counters,
		binary, large, pipeline, transaction, errorReplies, parallel,
	})
}
