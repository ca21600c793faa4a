//! redis-rs with its default settings through the script of the matrix (../../README.md).

use redis::{Client, Commands, Connection, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind};
use std::{
    collections::HashMap,
    env,
    fmt::Debug,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    process::exit,
    thread,
    time::{Duration, Instant},
};

const ADD: &str = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
const PATIENCE: Duration = Duration::from_secs(20);

struct Matrix {
    client: Client,
    redis: Connection,
    prefix: String,
}

#[track_caller]
fn is<T: PartialEq + Debug>(want: T, got: RedisResult<T>) {
    assert_eq!(got.unwrap(), want);
}

#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "waited too long: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Has the server gone ("restart" in good order, "crash") and waits until it is back.
fn server_is_back_after(how: &str) {
    println!("{how}");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
}

impl Matrix {
    fn key(&self, name: &str) -> String {
        format!("{}:{name}", self.prefix)
    }
    fn another(&self) -> Connection {
        self.client.get_connection().unwrap()
    }
    fn get(&mut self, key: &str) -> RedisResult<Option<String>> {
        self.redis.get(key)
    }

    fn connect(&mut self) {
        is("PONG".to_owned(), redis::cmd("PING").query(&mut self.redis));
        let id: u64 = redis::cmd("CLIENT").arg("ID").query(&mut self.redis).unwrap();
        assert!(id > 0);
    }

    fn strings(&mut self) {
        let k = self.key("string");
        is(None, self.get(&k));
        is("OK".to_owned(), self.redis.set(&k, "value"));
        is(Some("value".to_owned()), self.get(&k));
        is(6, self.redis.append(&k, "!"));
        is(Some("value!".to_owned()), self.get(&k));
        is(vec![Some("value!".to_owned()), None], self.redis.mget(&[&k, &self.key("absent")]));
        is(1, self.redis.del(&k));
        is(None, self.get(&k));
    }

    fn expiry(&mut self) {
        let k = self.key("expiry");
        is("OK".to_owned(), self.redis.set_ex(&k, 1, 100));
        let left: i64 = self.redis.ttl(&k).unwrap();
        assert!((98..=100).contains(&left), "{left}");
        is(true, self.redis.pexpire(&k, 60));
        until("the key to expire", || self.get(&k).unwrap().is_none());
        is(-2, self.redis.ttl(&k));
    }

    fn pipeline(&mut self) {
        let k = self.key("pipe");
        let mut pipe = redis::pipe();
        for i in 0..200 {
            pipe.set(format!("{k}{i}"), i).get(format!("{k}{i}"));
        }
        let replies: Vec<String> = pipe.query(&mut self.redis).unwrap();
        let want: Vec<String> = (0..200).flat_map(|i| ["OK".to_owned(), i.to_string()]).collect();
        assert_eq!(replies, want);
        // An error stays where it belongs.
        let mut pipe = redis::pipe();
        pipe.rpush(&k, &["a", "b"]).incr(&k, 1).lrange(&k, 0, -1).ignore_errors();
        type Replies = (i64, RedisResult<i64>, Vec<String>);
        let (pushed, refused, values): Replies = pipe.query(&mut self.redis).unwrap();
        assert_eq!((pushed, values), (2, vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(refused.unwrap_err().code(), Some("WRONGTYPE"));
    }

    fn transaction(&mut self) {
        let (k, log) = (self.key("balance"), self.key("log"));
        is("OK".to_owned(), self.redis.set(&k, 10));
        let replies = redis::pipe().atomic().incr(&k, 5).get(&k).rpush(log, "a").query(&mut self.redis);
        is((15, "15".to_owned(), 1), replies);
        let mut other = self.another();
        let mut tries = 0;
        let done: RedisResult<Vec<String>> = redis::transaction(&mut self.redis, &[&k], |redis, pipe| {
            tries += 1;
            let seen: i64 = redis.get(&k)?;
            if tries == 1 {
                is("OK".to_owned(), other.set(&k, 100));
            }
            pipe.set(&k, seen * 2).query(redis)
        });
        is(vec!["OK".to_owned()], done);
        assert_eq!(tries, 2);
        is(Some("200".to_owned()), self.get(&k));
    }

    fn pubsub(&mut self) {
        let channel = self.key("channel");
        let mut connection = self.another();
        let mut subscriber = connection.as_pubsub();
        subscriber.set_read_timeout(Some(PATIENCE)).unwrap();
        subscriber.subscribe(&channel).unwrap();
        let binary: Vec<u8> = (0..=255).collect();
        is(1, self.redis.publish(&channel, "hello"));
        is(1, self.redis.publish(&channel, &binary));
        for want in [b"hello".as_slice(), &binary] {
            let message = subscriber.get_message().unwrap();
            assert_eq!((message.get_channel_name(), message.get_payload_bytes()), (channel.as_str(), want));
        }
        subscriber.unsubscribe(&channel).unwrap();
        is(0, self.redis.publish(&channel, "nobody"));
        drop(subscriber);
        // The connection is an ordinary one again.
        is("PONG".to_owned(), redis::cmd("PING").query(&mut connection));
    }

    fn blocking_pop(&mut self) {
        let (ask, answer) = (self.key("ask"), self.key("answer"));
        let (mut one, mut two, mut three) = (self.another(), self.another(), self.another());
        is(None::<(String, String)>, one.blpop(&ask, 0.05));
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    let (_, asked): (String, String) = two.brpop(&ask, 20.0).unwrap();
                    let _: i64 = three.rpush(&answer, asked).unwrap();
                }
            });
            for i in 0..20 {
                is(1, self.redis.lpush(&ask, i));
                is((answer.clone(), i.to_string()), one.blpop(&answer, 20.0));
            }
        });
    }

    fn hash(&mut self) {
        let k = self.key("hash");
        let all = |fields: &[(&str, &str)]| -> HashMap<String, String> {
            fields.iter().map(|(field, value)| (field.to_string(), value.to_string())).collect()
        };
        is("OK".to_owned(), self.redis.hset_multiple(&k, &[("name", "Ada"), ("age", "36")]));
        is("Ada".to_owned(), self.redis.hget(&k, "name"));
        is(all(&[("name", "Ada"), ("age", "36")]), self.redis.hgetall(&k));
        is(37, self.redis.hincr(&k, "age", 1));
        is((Some("37".to_owned()), None::<String>), self.redis.hmget(&k, &["age", "absent"]));
        is(1, self.redis.hdel(&k, "name"));
        is(all(&[("age", "37")]), self.redis.hgetall(&k));
    }

    fn script(&mut self) {
        let k = self.key("script");
        is("OK".to_owned(), self.redis.set(&k, 1));
        is(Some("1".to_owned()), self.get(&k));
        is(3, redis::cmd("EVAL").arg(ADD).arg(1).arg(&k).arg(2).query(&mut self.redis));
        is(Some("3".to_owned()), self.get(&k));
        let mut unknown = redis::cmd("EVALSHA");
        unknown.arg("0".repeat(40)).arg(1).arg(&k).arg(4);
        let refused: RedisError = unknown.query::<i64>(&mut self.redis).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Server(ServerErrorKind::NoScript));
        let add = Script::new(&format!("{ADD} -- {k}"));
        is(7, add.key(&k).arg(4).invoke(&mut self.redis)); // EVALSHA, SCRIPT LOAD, EVALSHA
        is(11, add.key(&k).arg(4).invoke(&mut self.redis)); // EVALSHA
        is(Some("11".to_owned()), self.get(&k));
    }

    fn reconnect(&mut self) {
        let after = self.key("after");
        for how in ["restart", "crash"] {
            server_is_back_after(how);
            // A connection that was lost says so, and stays lost: one asks the client for another.
            let lost = self.redis.set::<_, _, String>(&after, how).unwrap_err();
            assert!(lost.is_connection_dropped() && !redis::ConnectionLike::is_open(&self.redis), "{lost}");
            self.redis = self.another();
            is("OK".to_owned(), self.redis.set(&after, how));
            is(Some(how.to_owned()), self.get(&after));
        }
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let client = Client::open(format!("redis://{}", args[1])).unwrap();
    let redis = client.get_connection().unwrap();
    let mut matrix = Matrix { client, redis, prefix: args[2].clone() };
    type Check = fn(&mut Matrix);
    let checks: [(&str, Check); 10] = [
        ("connect", Matrix::connect),
        ("strings", Matrix::strings),
        ("expiry", Matrix::expiry),
        ("pipeline", Matrix::pipeline),
        ("transaction", Matrix::transaction),
        ("pubsub", Matrix::pubsub),
        ("blocking_pop", Matrix::blocking_pop),
        ("hash", Matrix::hash),
        ("script", Matrix::script),
        ("reconnect", Matrix::reconnect),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        // What went wrong, the panic has said on standard error.
        match catch_unwind(AssertUnwindSafe(|| check(&mut matrix))) {
            Ok(()) => println!("ok {name}"),
            Err(_) => {
                failed += 1;
                println!("FAILED {name}");
            }
        }
    }
    println!("redis-rs {}: {} passed, {failed} failed", env!("REDIS_RS"), checks.len() - failed);
    exit(i32::from(failed > 0));
}
