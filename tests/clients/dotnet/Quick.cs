using StackExchange.Redis;

var address = Environment.GetEnvironmentVariable("REDIS_ADDRESS") ?? "127.0.0.1:6380";
using var connection = await ConnectionMultiplexer.ConnectAsync(address);
var redis = connection.GetDatabase();
await redis.StringSetAsync("user:1", "Ada", TimeSpan.FromMinutes(1));
Console.WriteLine(await redis.StringGetAsync("user:1"));
Console.WriteLine(await redis.StringIncrementAsync("visits"));
