// go-redis' cluster class through the commands that an application sends (../../../README.md).
package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	. "larder/tests/clients/go/matrix/check"
	. "larder/tests/clients/go/matrix/goredis"
)

var (
	ctx = context.Background()
	db  *redis.ClusterClient
)

func nodes() {
	slots, err := db.ClusterSlots(ctx).Result()
	True(err == nil && len(slots) == 1 && slots[0].End == 16383, err)
	True(slots[0].Nodes[0].Addr == Address(), slots)
}

func stringValues() {
	for i := range 100 {
		Is("OK", db.Set(ctx, Key(strconv.Itoa(i)), i, 100*time.Second))
	}
	for i := range 100 {
		Is(strconv.Itoa(i), db.Get(ctx, Key(strconv.Itoa(i))))
	}
}

func tagged() {
	one, two := Key("{tag}1"), Key("{tag}2")
	Is("OK", db.MSet(ctx, one, "1", two, "2"))
	Is([]any{"1", "2"}, db.MGet(ctx, one, two))
	Is(int64(2), db.Del(ctx, one, two))
}

func severalSlots() {
	err := db.Do(ctx, "MGET", Key("a"), Key("b")).Err()
	True(err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT"), err)
}

func pipeline() {
	replies, err := db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 100 {
			pipe.IncrBy(ctx, Key("counter"), int64(i))
		}
		return nil
	})
	True(err == nil && len(replies) == 100, err)
	Is("4950", db.Get(ctx, Key("counter")))
}

func transaction() {
	k := Key("{tx}1")
	replies, err := db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, k, "1", 0)
		pipe.Incr(ctx, k)
		return nil
	})
	True(err == nil && len(replies) == 2, err)
	crossed := db.Watch(ctx, func(*redis.Tx) error { return errors.New("watched") }, Key("a"), Key("b"))
	True(crossed != nil && crossed.Error() != "watched", crossed)
}

func main() {
	db = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{Address()}})
	names := []string{"nodes", "strings", "tagged", "several_slots", "pipeline", "transaction"}
	Run("go-redis "+redis.Version()+", cluster", names, []func(){nodes, stringValues, tagged, severalSlots, pipeline, transaction})
}
