// rueidis and its client-side cache, with default settings (../../../README.md).
package main

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	. "larder/tests/clients/go/matrix/check"
)

func main() {
	ctx := context.Background()
	connect := func() rueidis.Client {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{Address()}})
		if err != nil {
			panic(err)
		}
		return client
	}
	cached, plain := connect(), connect()
	Cache("rueidis", Reader{
		Get: func(key string) (string, bool) {
			value, err := cached.DoCache(ctx, cached.B().Get().Key(key).Cache(), time.Minute).ToString()
			if rueidis.IsRedisNil(err) {
				return "", false
			}
			True(err == nil, err)
			return value, true
		},
		Do: func(command ...string) string {
			reply, err := plain.Do(ctx, plain.B().Arbitrary(command...).Build()).ToAny()
			True(err == nil || rueidis.IsRedisNil(err), err)
			text, _ := reply.(string)
			return text
		},
	})
}
