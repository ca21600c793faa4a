// go-redis and its client-side cache, which it calls experimental (../../../README.md).
package main

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	. "larder/tests/clients/go/matrix/check"
)

func main() {
	ctx := context.Background()
	cached := redis.NewClient(&redis.Options{Addr: Address(), ClientSideCacheConfig: &redis.ClientSideCacheConfig{}})
	plain := redis.NewClient(&redis.Options{Addr: Address()})
	Cache("go-redis "+redis.Version(), Reader{
		Get: func(key string) (string, bool) {
			value, err := cached.Get(ctx, key).Result()
			if errors.Is(err, redis.Nil) {
				return "", false
			}
			True(err == nil, err)
			return value, true
		},
		Do: func(command ...string) string {
			args := make([]any, len(command))
			for i, part := range command {
				args[i] = part
			}
			reply, err := plain.Do(ctx, args...).Result()
			True(err == nil || errors.Is(err, redis.Nil), err)
			text, _ := reply.(string)
			return text
		},
	})
}
