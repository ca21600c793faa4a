<?php
// phpredis with its default settings through both scripts (../README.md): client.php checks|matrix HOST:PORT PREFIX
require __DIR__ . '/harness.php';
[, $script, $address, $prefix] = $argv;
[$host, $port] = explode(':', $address);
const ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])";
const SCRIPTS = [
    'checks' => ['handshake', 'strings', 'many', 'expiry', 'delete', 'counters', 'binary', 'large', 'pipeline', 'transaction', 'errors', 'parallel'],
    'matrix' => ['connect', 'strings', 'expiry', 'pipeline', 'transaction', 'pubsub', 'blocking_pop', 'hash', 'script', 'reconnect'],
];

final class Checks
{
    private Redis $redis;

    public function __construct(private string $host, private int $port, private string $prefix)
    {
        $this->redis = $this->another();
    }

    private function another(): Redis
    {
        $redis = new Redis();
        holds($redis->connect($this->host, $this->port), 'connects');
        return $redis;
    }

    private function key(string $name): string
    {
        return "$this->prefix:$name";
    }

    // Demands an error whose text begins so.
    private function refused(string $text, mixed $reply): void
    {
        is(false, $reply);
        $error = $this->redis->getLastError();
        holds(str_starts_with((string) $error, $text), $error);
        $this->redis->clearLastError();
    }

    public function handshake(): void
    {
        holds($this->redis->client('id') > 0, 'a number');
        is(true, $this->redis->client('setname', 'larder-test'));
        is('larder-test', $this->redis->client('getname'));
    }

    public function connect(): void
    {
        is(true, $this->redis->ping());
        is('hello', $this->redis->echo('hello'));
    }

    public function strings(): void
    {
        [$r, $k] = [$this->redis, $this->key('string')];
        is(false, $r->get($k));
        is(true, $r->set($k, 'value'));
        is('value', $r->get($k));
        is(false, $r->set($k, 'other', ['nx']));
        is(false, $r->set($this->key('absent'), 'other', ['xx']));
        is(6, $r->append($k, '!'));
        is('value!', $r->get($k));
        is('alu', $r->getRange($k, 1, 3));
        is(6, $r->strlen($k));
        is(['value!', false], $r->mget([$k, $this->key('absent')]));
        is('value!', $r->getSet($k, '3'));
        is(1, $r->del($k));
        is(false, $r->get($k));
    }

    public function many(): void
    {
        $pairs = [];
        for ($i = 0; $i < 50; $i++) {
            $pairs[$this->key("many$i")] = "v$i";
        }
        is(true, $this->redis->mset($pairs));
        $keys = array_keys($pairs);
        $values = array_values($pairs);
        array_splice($keys, 7, 0, $this->key('absent'));
        array_splice($values, 7, 0, [false]);
        is($values, $this->redis->mget($keys));
    }

    public function expiry(): void
    {
        [$r, $k] = [$this->redis, $this->key('expiry')];
        is(true, $r->set($k, '1', ['ex' => 100]));
        holds(in_array($r->ttl($k), [98, 99, 100]), $r->ttl($k));
        is(true, $r->persist($k));
        is(-1, $r->ttl($k));
        is(true, $r->pExpire($k, 60));
        until('the key to expire', fn() => $r->get($k) === false);
        is(-2, $r->ttl($k));
    }

    public function delete(): void
    {
        [$r, $a, $b, $absent] = [$this->redis, $this->key('a'), $this->key('b'), $this->key('absent')];
        is(true, $r->mset([$a => '1', $b => '2']));
        is(2, $r->exists($a, $b, $absent));
        is(1, $r->del($a, $absent));
        is(false, $r->get($a));
        is(1, $r->unlink($b));
        is(0, $r->exists($a, $b));
    }

    public function counters(): void
    {
        [$r, $k] = [$this->redis, $this->key('counter')];
        is(1, $r->incr($k));
        is(42, $r->incrBy($k, 41));
        is(41, $r->decr($k));
        is('41', $r->get($k));
        is(41.5, $r->incrByFloat($k, 0.5));
        $this->refused('ERR value is not an integer or out of range', $r->incr($k));
    }

    public function binary(): void
    {
        $all = implode('', array_map('chr', range(0, 255)));
        $k = $this->key('binary') . $all;
        is(true, $this->redis->set($k, "$all$all"));
        is("$all$all", $this->redis->get($k));
        is(true, $this->redis->set($k, ''));
        is('', $this->redis->get($k));
    }

    public function large(): void
    {
        [$k, $value] = [$this->key('large'), str_repeat("0123456789abcde\n", 512 * 1024)];
        is(true, $this->redis->set($k, $value));
        holds($this->redis->get($k) === $value, 'the same 8 MiB');
        is(1, $this->redis->del($k));
    }

    public function pipeline(): void
    {
        [$pipe, $word] = [$this->redis->multi(Redis::PIPELINE), $this->key('word')];
        for ($i = 0; $i < 500; $i++) {
            $pipe->set($this->key("pipe$i"), $i)->get($this->key("pipe$i"));
        }
        $replies = $pipe->set($word, 'x')->incr($word)->get($word)->exec();
        for ($i = 0; $i < 500; $i++) {
            is([true, "$i"], array_slice($replies, 2 * $i, 2));
        }
        is([true, false, 'x'], array_slice($replies, 1000));
    }

    public function transaction(): void
    {
        [$r, $k] = [$this->redis, $this->key('balance')];
        is(true, $r->set($k, 10));
        is([15, '15', ['15', false]], $r->multi()->incrBy($k, 5)->get($k)->mget([$k, $this->key('absent')])->exec());
        foreach ([true, false] as $meanwhile) {
            is(true, $r->watch($k));
            $seen = (int) $r->get($k);
            if ($meanwhile) {
                is(true, $this->another()->set($k, 100));
            }
            is($meanwhile ? false : [true], $r->multi()->set($k, $seen * 2)->exec());
        }
        is('200', $r->get($k));
    }

    public function errors(): void
    {
        $this->refused("ERR unknown command 'NOSUCHCOMMAND'", $this->redis->rawCommand('NOSUCHCOMMAND', 'a'));
        is(true, $this->redis->ping());
    }

    public function parallel(): void
    {
        $workers = [];
        for ($worker = 0; $worker < 16; $worker++) {
            $workers[] = beside(function () use ($worker) {
                $r = $this->another();
                for ($i = 0; $i < 50; $i++) {
                    $r->incr($this->key('parallel'));
                    is(true, $r->set($this->key("parallel$worker:$i"), $i));
                    is("$i", $r->get($this->key("parallel$worker:$i")));
                }
            });
        }
        foreach ($workers as $ended) {
            $ended();
        }
        is('800', $this->redis->get($this->key('parallel')));
    }

    public function pubsub(): void
    {
        $channel = $this->key('channel');
        $sent = ['hello', "\0\r\n\xff"];
        $ended = beside(function () use ($channel, $sent) {
            $r = $this->another();
            until('a subscriber', fn() => $r->publish($channel, $sent[0]) === 1);
            is(1, $r->publish($channel, $sent[1]));
        });
        $heard = [];
        try {
            $this->another()->subscribe([$channel], function ($r, $from, $message) use ($channel, &$heard) {
                is($channel, $from);
                $heard[] = $message;
                if (count($heard) === 2) {
                    is([$channel => true], $r->unsubscribe([$channel]));
                    // Nothing else ends this function of the library.
                    $r->close();
                }
            });
        } catch (RedisException) {
            is($sent, $heard);
        }
        $ended();
        is(0, $this->redis->publish($channel, 'nobody'));
    }

    public function blocking_pop(): void
    {
        [$r, $ask, $answer] = [$this->redis, $this->key('ask'), $this->key('answer')];
        is([], $r->blPop([$ask], 1));
        $ended = beside(function () use ($ask, $answer) {
            $r = $this->another();
            for ($i = 0; $i < 20; $i++) {
                $r->rPush($answer, $r->brPop([$ask], 20)[1]);
            }
        });
        for ($i = 0; $i < 20; $i++) {
            is(1, $r->lPush($ask, $i));
            is([$answer, "$i"], $r->blPop([$answer], 20));
        }
        $ended();
    }

    public function hash(): void
    {
        [$r, $k] = [$this->redis, $this->key('hash')];
        is(true, $r->hMSet($k, ['name' => 'Ada', 'age' => 36]));
        is('Ada', $r->hGet($k, 'name'));
        is(['name' => 'Ada', 'age' => '36'], $r->hGetAll($k));
        is(37, $r->hIncrBy($k, 'age', 1));
        is(['age' => '37', 'absent' => false], $r->hMGet($k, ['age', 'absent']));
        is(1, $r->hDel($k, 'name'));
        is(['age' => '37'], $r->hGetAll($k));
    }

    public function script(): void
    {
        [$r, $k] = [$this->redis, $this->key('script')];
        is(true, $r->set($k, 1));
        is('1', $r->get($k));
        is(3, $r->eval(ADD, [$k, 2], 1));
        is('3', $r->get($k));
        $this->refused('NOSCRIPT', $r->evalSha(str_repeat('0', 40), [$k, 4], 1));
        $sha = $r->script('load', ADD . " -- $k");
        is(7, $r->evalSha($sha, [$k, 4], 1));
        is('7', $r->get($k));
    }

    public function reconnect(): void
    {
        foreach (['restart', 'crash'] as $how) {
            $this->redis->get($this->key('before'));
            echo "$how\n";
            is("done\n", fgets(STDIN));
            // No error is seen.
            is(true, $this->redis->set($this->key('after'), $how));
            is($how, $this->redis->get($this->key('after')));
        }
    }
}

run(new Checks($host, (int) $port, $prefix), SCRIPTS[$script], 'phpredis ' . phpversion('redis'));
