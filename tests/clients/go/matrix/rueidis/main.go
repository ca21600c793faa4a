// rueidis with its default settings, client-side caching among them, through the script of the matrix (../../../README.md).
package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	. "larder/tests/clients/go/matrix/check"
)

var (
	ctx = context.Background()
	db  rueidis.Client
)

func ask(cmd rueidis.Completed) rueidis.RedisResult { return db.Do(ctx, cmd) }

func isInt(want int64, result rueidis.RedisResult) { Equal(want)(result.AsInt64()) }

func isText(want string, result rueidis.RedisResult) { Equal(want)(result.ToString()) }

func isNil(result rueidis.RedisResult) {
	if err := result.Error(); !rueidis.IsRedisNil(err) {
		Fail("%v, want nil", result)
	}
}

func refused(text string, result rueidis.RedisResult) {
	if err := result.Error(); err == nil || !strings.HasPrefix(err.Error(), text) {
		Fail("got %v, want the error %q", result, text)
	}
}

func get(k string) rueidis.RedisResult { return ask(db.B().Get().Key(k).Build()) }

func set(k, value string) { isText("OK", ask(db.B().Set().Key(k).Value(value).Build())) }

// cached reads through the client-side cache, which hears of changes a moment after they were answered.
func cached(k string) rueidis.RedisResult {
	return db.DoCache(ctx, db.B().Get().Key(k).Cache(), time.Minute)
}

func connect() {
	isText("PONG", ask(db.B().Ping().Build()))
	id, err := ask(db.B().ClientId().Build()).AsInt64()
	True(err == nil && id > 0, err)
}

func stringValues() {
	k := Key("string")
	isNil(cached(k))
	set(k, "value")
	isText("value", get(k))
	Until("the new key to be seen", func() bool { return cached(k).Error() == nil })
	isText("value", cached(k))
	isInt(6, ask(db.B().Append().Key(k).Value("!").Build()))
	isText("value!", get(k))
	Until("the change to be seen", func() bool { got, _ := cached(k).ToString(); return got == "value!" })
	values, err := ask(db.B().Mget().Key(k, Key("absent")).Build()).ToArray()
	True(err == nil && len(values) == 2 && values[1].IsNil(), err)
	Equal("value!")(values[0].ToString())
	isInt(1, ask(db.B().Del().Key(k).Build()))
	isNil(get(k))
	Until("the deletion to be seen", func() bool { return rueidis.IsRedisNil(cached(k).Error()) })
}

func expiry() {
	k := Key("expiry")
	isText("OK", ask(db.B().Set().Key(k).Value("1").ExSeconds(100).Build()))
	left, err := ask(db.B().Ttl().Key(k).Build()).AsInt64()
	True(err == nil && left >= 98 && left <= 100, left)
	isInt(1, ask(db.B().Pexpire().Key(k).Milliseconds(60).Build()))
	Until("the key to expire", func() bool { return rueidis.IsRedisNil(get(k).Error()) })
	isInt(-2, ask(db.B().Ttl().Key(k).Build()))
}

func pipeline() {
	k := Key("pipe")
	var cmds []rueidis.Completed
	for i := range 200 {
		n := strconv.Itoa(i)
		cmds = append(cmds, db.B().Set().Key(k+n).Value(n).Build(), db.B().Get().Key(k+n).Build())
	}
	cmds = append(cmds, db.B().Rpush().Key(k).Element("a", "b").Build(), db.B().Incr().Key(k).Build(),
		db.B().Lrange().Key(k).Start(0).Stop(-1).Build())
	replies := db.DoMulti(ctx, cmds...)
	for i := range 200 {
		isText("OK", replies[2*i])
		isText(strconv.Itoa(i), replies[2*i+1])
	}
	isInt(2, replies[400])
	refused("WRONGTYPE", replies[401])
	Equal([]string{"a", "b"})(replies[402].AsStrSlice())
}

func transaction() {
	k := Key("balance")
	set(k, "10")
	err := db.Dedicated(func(c rueidis.DedicatedClient) error {
		replies := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Incrby().Key(k).Increment(5).Build(),
			c.B().Get().Key(k).Build(), c.B().Rpush().Key(Key("log")).Element("a").Build(), c.B().Exec().Build())
		values, err := replies[4].ToArray()
		True(err == nil && len(values) == 3, err)
		Equal(int64(15))(values[0].AsInt64())
		Equal("15")(values[1].ToString())
		Equal(int64(1))(values[2].AsInt64())
		for _, meanwhile := range []bool{true, false} {
			isText("OK", c.Do(ctx, c.B().Watch().Key(k).Build()))
			seen, err := c.Do(ctx, c.B().Get().Key(k).Build()).AsInt64()
			True(err == nil, err)
			if meanwhile {
				set(k, "100") // on another connection
			}
			replies := c.DoMulti(ctx, c.B().Multi().Build(),
				c.B().Set().Key(k).Value(strconv.FormatInt(seen*2, 10)).Build(), c.B().Exec().Build())
			if meanwhile {
				isNil(replies[2])
			} else {
				Equal([]string{"OK"})(replies[2].AsStrSlice())
			}
		}
		return nil
	})
	True(err == nil, err)
	isText("200", get(k))
}

func publish(channel, message string) int64 {
	receivers, err := ask(db.B().Publish().Channel(channel).Message(message).Build()).AsInt64()
	True(err == nil, err)
	return receivers
}

func pubsub() {
	channel := Key("channel")
	messages := make(chan rueidis.PubSubMessage, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- db.Receive(ctx, db.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { messages <- m })
	}()
	Until("the subscription", func() bool { return publish(channel, "hello") == 1 })
	binary := string([]byte{0, 13, 10, 255})
	Equal(int64(1))(publish(channel, binary), nil)
	Equal(rueidis.PubSubMessage{Channel: channel, Message: "hello"})(Next(messages), nil)
	Equal(rueidis.PubSubMessage{Channel: channel, Message: binary})(Next(messages), nil)
	True(ask(db.B().Unsubscribe().Channel(channel).Build()).Error() == nil, "unsubscribe")
	Equal[error](nil)(Next(ended), nil)
	Equal(int64(0))(publish(channel, "nobody"), nil)
}

func blockingPop() {
	question, answer := Key("ask"), Key("answer")
	isNil(ask(db.B().Blpop().Key(question).Timeout(0.05).Build()))
	echoed := make(chan error, 1)
	go func() {
		for range 20 {
			asked, err := ask(db.B().Brpop().Key(question).Timeout(20).Build()).AsStrSlice()
			if err == nil {
				err = ask(db.B().Rpush().Key(answer).Element(asked[1]).Build()).Error()
			}
			if err != nil {
				echoed <- err
				return
			}
		}
		echoed <- nil
	}()
	for i := range 20 {
		isInt(1, ask(db.B().Lpush().Key(question).Element(strconv.Itoa(i)).Build()))
		Equal([]string{answer, strconv.Itoa(i)})(ask(db.B().Blpop().Key(answer).Timeout(20).Build()).AsStrSlice())
	}
	err := Next(echoed)
	True(err == nil, err)
}

func hash() {
	k := Key("hash")
	all := func() (map[string]string, error) { return ask(db.B().Hgetall().Key(k).Build()).AsStrMap() }
	isInt(2, ask(db.B().Hset().Key(k).FieldValue().FieldValue("name", "Ada").FieldValue("age", "36").Build()))
	isText("Ada", ask(db.B().Hget().Key(k).Field("name").Build()))
	Equal(map[string]string{"name": "Ada", "age": "36"})(all())
	isInt(37, ask(db.B().Hincrby().Key(k).Field("age").Increment(1).Build()))
	values, err := ask(db.B().Hmget().Key(k).Field("age", "absent").Build()).ToArray()
	True(err == nil && len(values) == 2 && values[1].IsNil(), err)
	Equal("37")(values[0].ToString())
	isInt(1, ask(db.B().Hdel().Key(k).Field("name").Build()))
	Equal(map[string]string{"age": "37"})(all())
}

func script() {
	k := Key("script")
	set(k, "1")
	isText("1", get(k))
	isInt(3, ask(db.B().Eval().Script(Add).Numkeys(1).Key(k).Arg("2").Build()))
	isText("3", get(k))
	refused("NOSCRIPT", ask(db.B().Evalsha().Sha1(strings.Repeat("0", 40)).Numkeys(1).Key(k).Arg("4").Build()))
	add := rueidis.NewLuaScript(Add + " -- " + k)
	isInt(7, add.Exec(ctx, db, []string{k}, []string{"4"}))  // EVALSHA, then EVAL
	isInt(11, add.Exec(ctx, db, []string{k}, []string{"4"})) // EVALSHA
	isText("11", get(k))
}

func reconnect() {
	channel := Key("news")
	messages := make(chan string, 10)
	listening, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Receive ends with the connection: who wants more asks again.
		for listening.Err() == nil {
			_ = db.Receive(listening, db.B().Subscribe().Channel(channel).Build(), func(m rueidis.PubSubMessage) { messages <- m.Message })
		}
	}()
	Until("the subscription", func() bool { return publish(channel, "first") == 1 })
	Equal("first")(Next(messages), nil)
	for _, how := range []string{"restart", "crash"} {
		ServerIsBackAfter(how)
		// Reads are tried again by the library; a write says once for each connection that it is lost.
		isNil(get(Key("absent")))
		Until("a write", func() bool { return ask(db.B().Set().Key(Key("after")).Value(how).Build()).Error() == nil })
		isText(how, get(Key("after")))
		Until("the subscription", func() bool {
			receivers, err := ask(db.B().Publish().Channel(channel).Message(how).Build()).AsInt64()
			return err == nil && receivers == 1
		})
		Equal(how)(Next(messages), nil)
	}
	stop()
	<-ended
}

func main() {
	var err error
	db, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{Address()}})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	Matrix("rueidis "+rueidis.LibVer, [...]func(){
		connect, stringValues, expiry, pipeline, transaction, pubsub, blockingPop, hash, script, reconnect,
	})
}
