use redis::TypedCommands;

fn main() -> redis::RedisResult<()> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6380".into());
    let mut redis = redis::Client::open(url)?.get_connection()?;
    redis.set_ex("user:1", "Ada", 60)?;
    println!("{}", redis.get("user:1")?.unwrap_or_default());
    println!("{}", redis.incr("visits", 1)?);
    Ok(())
}
