// go-redis with its default settings through the script of the matrix (../../../README.md).
package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	. "larder/tests/clients/go/matrix/check"
	. "larder/tests/clients/go/matrix/goredis"
)

var (
	ctx = context.Background()
	db  *redis.Client
)

func connect() {
	Is("PONG", db.Ping(ctx))
	id, err := db.ClientID(ctx).Result()
	True(err == nil && id > 0, err)
	// By default a refusal is overlooked, so this asks for it; redis-server 7 does not have it.
	if info, err := db.Info(ctx).Result(); err != nil || strings.Contains(info, "larder_version") {
		enabled := &maintnotifications.Config{Mode: maintnotifications.ModeEnabled}
		told := redis.NewClient(&redis.Options{Addr: Address(), MaintNotificationsConfig: enabled})
		defer told.Close()
		Is("PONG", told.Ping(ctx))
	}
}

func stringValues() {
	k := Key("string")
	Absent(db.Get(ctx, k))
	Is("OK", db.Set(ctx, k, "value", 0))
	Is("value", db.Get(ctx, k))
	Is(int64(6), db.Append(ctx, k, "!"))
	Is("value!", db.Get(ctx, k))
	Is([]any{"value!", nil}, db.MGet(ctx, k, Key("absent")))
	Is(int64(1), db.Del(ctx, k))
	Absent(db.Get(ctx, k))
}

func expiry() {
	k := Key("expiry")
	Is("OK", db.Set(ctx, k, "1", 100*time.Second))
	left, err := db.TTL(ctx, k).Result()
	True(err == nil && left >= 98*time.Second && left <= 100*time.Second, left)
	Is(true, db.PExpire(ctx, k, 60*time.Millisecond))
	Until("the key to expire", func() bool { return errors.Is(db.Get(ctx, k).Err(), redis.Nil) })
	Is(time.Duration(-2), db.TTL(ctx, k))
}

func pipeline() {
	k := Key("pipe")
	pipe := db.Pipeline()
	for i := range 200 {
		pipe.Set(ctx, k+strconv.Itoa(i), i, 0)
		pipe.Get(ctx, k+strconv.Itoa(i))
	}
	push, incr, values := pipe.RPush(ctx, k, "a", "b"), pipe.Incr(ctx, k), pipe.LRange(ctx, k, 0, -1)
	cmds, err := pipe.Exec(ctx)
	True(err != nil && len(cmds) == 403, "the error in a pipeline was lost")
	for i := range 200 {
		Is("OK", cmds[2*i].(*redis.StatusCmd))
		Is(strconv.Itoa(i), cmds[2*i+1].(*redis.StringCmd))
	}
	Is(int64(2), push)
	Refused("WRONGTYPE", incr)
	Is([]string{"a", "b"}, values)
}

func transaction() {
	k := Key("balance")
	Is("OK", db.Set(ctx, k, 10, 0))
	pipe := db.TxPipeline()
	incr, get, push := pipe.IncrBy(ctx, k, 5), pipe.Get(ctx, k), pipe.RPush(ctx, Key("log"), "a")
	_, err := pipe.Exec(ctx)
	True(err == nil, err)
	Is(int64(15), incr)
	Is("15", get)
	Is(int64(1), push)
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

func allBytes() string {
	value := make([]byte, 256)
	for i := range value {
		value[i] = byte(i)
	}
	return string(value)
}

func pubsub() {
	channel := Key("channel")
	subscriber := db.Subscribe(ctx, channel)
	defer subscriber.Close()
	receive := func() any {
		event, err := subscriber.ReceiveTimeout(ctx, 20*time.Second)
		True(err == nil, err)
		return event
	}
	Equal[any](&redis.Subscription{Kind: "subscribe", Channel: channel, Count: 1})(receive(), nil)
	Is(int64(1), db.Publish(ctx, channel, "hello"))
	Is(int64(1), db.Publish(ctx, channel, allBytes()))
	Equal[any](&redis.Message{Channel: channel, Payload: "hello"})(receive(), nil)
	Equal[any](&redis.Message{Channel: channel, Payload: allBytes()})(receive(), nil)
	True(subscriber.Unsubscribe(ctx, channel) == nil, "unsubscribe")
	Equal[any](&redis.Subscription{Kind: "unsubscribe", Channel: channel, Count: 0})(receive(), nil)
	Is(int64(0), db.Publish(ctx, channel, "nobody"))
}

func blockingPop() {
	ask, answer := Key("ask"), Key("answer")
	if _, err := db.BLPop(ctx, time.Second, ask).Result(); !errors.Is(err, redis.Nil) {
		Fail("%v", err)
	}
	echoed := make(chan error, 1)
	go func() {
		for range 20 {
			asked, err := db.BRPop(ctx, 20*time.Second, ask).Result()
			if err == nil {
				err = db.RPush(ctx, answer, asked[1]).Err()
			}
			if err != nil {
				echoed <- err
				return
			}
		}
		echoed <- nil
	}()
	for i := range 20 {
		Is(int64(1), db.LPush(ctx, ask, i))
		Is([]string{answer, strconv.Itoa(i)}, db.BLPop(ctx, 20*time.Second, answer))
	}
	err := Next(echoed)
	True(err == nil, err)
}

func hash() {
	k := Key("hash")
	Is(int64(2), db.HSet(ctx, k, "name", "Ada", "age", 36))
	Is("Ada", db.HGet(ctx, k, "name"))
	Is(map[string]string{"name": "Ada", "age": "36"}, db.HGetAll(ctx, k))
	Is(int64(37), db.HIncrBy(ctx, k, "age", 1))
	Is([]any{"37", nil}, db.HMGet(ctx, k, "age", "absent"))
	Is(int64(1), db.HDel(ctx, k, "name"))
	Is(map[string]string{"age": "37"}, db.HGetAll(ctx, k))
}

func script() {
	k := Key("script")
	Is("OK", db.Set(ctx, k, 1, 0))
	Is("1", db.Get(ctx, k))
	Is[any](int64(3), db.Eval(ctx, Add, []string{k}, 2))
	Is("3", db.Get(ctx, k))
	Refused("NOSCRIPT", db.EvalSha(ctx, strings.Repeat("0", 40), []string{k}, 4))
	add := redis.NewScript(Add + " -- " + k)
	Is[any](int64(7), add.Run(ctx, db, []string{k}, 4))      // EVALSHA, then EVAL
	Is[any](int64(11), add.EvalSha(ctx, db, []string{k}, 4)) // EVALSHA
	Is("11", db.Get(ctx, k))
}

func reconnect() {
	channel := Key("news")
	subscriber := db.Subscribe(ctx, channel)
	defer subscriber.Close()
	_, err := subscriber.Receive(ctx)
	True(err == nil, err)
	messages := subscriber.Channel()
	for _, how := range []string{"restart", "crash"} {
		ServerIsBackAfter(how)
		Is("OK", db.Set(ctx, Key("after"), how, 0)) // no error is seen
		Is(how, db.Get(ctx, Key("after")))
		// The library subscribes again by itself.
		Until("the subscription", func() bool { return db.Publish(ctx, channel, how).Val() == 1 })
		Equal(how)(Next(messages).Payload, nil)
	}
}

func main() {
	db = redis.NewClient(&redis.Options{Addr: Address()})
	defer db.Close()
	Matrix("go-redis "+redis.Version(), [...]func(){
		connect, stringValues, expiry, pipeline, transaction, pubsub, blockingPop, hash, script, reconnect,
	})
}
