import redis.clients.jedis.RedisClient;
import redis.clients.jedis.params.SetParams;

class Quick {
    public static void main(String[] args) {
        String url = System.getenv().getOrDefault("REDIS_URL", "redis://127.0.0.1:6380");
        try (RedisClient redis = RedisClient.create(url)) {
            redis.set("user:1", "Ada", SetParams.setParams().ex(60));
            System.out.println(redis.get("user:1"));
            System.out.println(redis.incr("visits"));
        }
    }
}
