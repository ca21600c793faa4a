// go-redis with its default settings counts until it is told to stop, while its server tells it to move (../../../README.md).
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

func main() {
	options := &redis.Options{Addr: os.Args[1]}
	if os.Args[2] == "none" {
		options.MaintNotificationsConfig = &maintnotifications.Config{
			Mode: maintnotifications.ModeEnabled, EndpointType: maintnotifications.EndpointTypeNone,
		}
	}
	db := redis.NewClient(options)
	var stopped atomic.Bool
	counted, errors := 0, []error{}
	for !stopped.Load() {
		if err := db.Incr(context.Background(), "count").Err(); err != nil {
			errors = append(errors, err)
		} else if counted++; counted == 1 {
			fmt.Println("counting")
			go func() {
				bufio.NewReader(os.Stdin).ReadString('\n')
				stopped.Store(true)
			}()
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Printf("go-redis %s: %d counted, %d errors %v\n", redis.Version(), counted, len(errors), errors[:min(3, len(errors))])
}
