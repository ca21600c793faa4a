import io.lettuce.core.ClientOptions;
import io.lettuce.core.LettuceVersion;
import io.lettuce.core.MaintNotificationsConfig;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;

/** Lettuce with its default settings counts until it is told to stop, while its server tells it to move (../README.md). */
final class LettuceMoving {
    public static void main(String[] args) throws Exception {
        var client = RedisClient.create(RedisURI.create("redis://" + args[0]));
        if (args[1].equals("none")) {
            var none = MaintNotificationsConfig.enabled(MaintNotificationsConfig.EndpointType.NONE);
            client.setOptions(ClientOptions.builder().maintNotificationsConfig(none).build());
        }
        var redis = client.connect().sync();
        FutureTask<Integer> stopped = null;
        int counted = 0;
        List<Exception> errors = new ArrayList<>();
        while (stopped == null || !stopped.isDone()) {
            try {
                redis.incr("count");
                if (++counted == 1) {
                    System.out.println("counting");
                    stopped = Matrix.beside(System.in::read);
                }
            } catch (Exception error) {
                errors.add(error);
            }
            Thread.sleep(1);
        }
        System.out.println("lettuce " + LettuceVersion.getVersion() + ": " + counted + " counted, " + errors.size() + " errors "
                + errors.subList(0, Math.min(3, errors.size())));
        System.exit(0);
    }
}
