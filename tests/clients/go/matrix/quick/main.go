package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	options, err := redis.ParseURL(cmp.Or(os.Getenv("REDIS_URL"), "redis://127.0.0.1:6380"))
	if err != nil {
		panic(err)
	}
	ctx, client := context.Background(), redis.NewClient(options)
	if err := client.Set(ctx, "user:1", "Ada", time.Minute).Err(); err != nil {
		panic(err)
	}
	fmt.Println(client.Get(ctx, "user:1").Val())
	fmt.Println(client.Incr(ctx, "visits").Val())
}
