import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SetArgs;
import io.lettuce.core.cluster.RedisClusterClient;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Lettuce's cluster class through the commands that an application sends (../README.md). */
final class LettuceClusters {
    public static void main(String[] args) {
        RedisClusterClient client = RedisClusterClient.create(RedisURI.create("redis://" + args[0]));
        var redis = client.connect().sync();
        String prefix = args[1] + ":";
        Map<String, Matrix.Check> checks = new LinkedHashMap<>();
        checks.put("nodes", () -> {
            var node = client.getPartitions().getPartition(0);
            Matrix.is(1, client.getPartitions().size());
            Matrix.is(args[0], node.getUri().getHost() + ":" + node.getUri().getPort());
            Matrix.is(16384, node.getSlots().size());
        });
        checks.put("strings", () -> {
            for (int i = 0; i < 100; i++) Matrix.is("OK", redis.set(prefix + i, "" + i, SetArgs.Builder.ex(100)));
            for (int i = 0; i < 100; i++) Matrix.is("" + i, redis.get(prefix + i));
        });
        checks.put("tagged", () -> {
            String one = prefix + "{tag}1", two = prefix + "{tag}2";
            Matrix.is("OK", redis.mset(Map.of(one, "1", two, "2")));
            Matrix.is(List.of(KeyValue.just(one, "1"), KeyValue.just(two, "2")), redis.mget(one, two));
            Matrix.is(2L, redis.del(one, two));
        });
        // The class itself asks for each slot.
        checks.put("several_slots", () -> {
            redis.set(prefix + "a", "1");
            redis.set(prefix + "b", "2");
            Matrix.is(
                List.of(KeyValue.just(prefix + "a", "1"), KeyValue.just(prefix + "b", "2")),
                redis.mget(prefix + "a", prefix + "b"));
            Matrix.refused("CROSSSLOT", () -> redis.rename(prefix + "a", prefix + "b"));
        });
        checks.put("scan", () -> {
            redis.set(prefix + "scanned", "1");
            Matrix.holds(redis.keys(prefix + "*").contains(prefix + "scanned"), "scanned");
        });
        checks.put("counter", () -> Matrix.is(1L, redis.incr(prefix + "once")));
        Matrix.run("lettuce " + LettuceVersion.getVersion() + ", cluster", checks);
    }
}
