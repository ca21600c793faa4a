<?php
// php-memcached with its default settings: memcached_client.php HOST:PORT PREFIX [redis]. The checks: ../README.md.
//
// With `redis`, values are not compressed: that is a client flag, which a Redis behind Larder cannot keep.
require __DIR__ . '/harness.php';
[, $address, $prefix] = $argv;
[$host, $port] = explode(':', $address);
$compresses = ($argv[3] ?? '') !== 'redis';

final class Checks
{
    private Memcached $client;

    public function __construct(private string $host, private int $port, private string $prefix, private bool $compresses)
    {
        $this->client = $this->another();
    }

    private function another(): Memcached
    {
        $client = new Memcached();
        $client->addServer($this->host, $this->port);
        $this->compresses || $client->setOption(Memcached::OPT_COMPRESSION, false);
        return $client;
    }

    private function key(string $name): string
    {
        return "$this->prefix:$name";
    }

    public function connect(): void
    {
        holds(preg_match('/^\d+\.\d+\.\d+/', current($this->client->getVersion())), $this->client->getVersion());
    }

    public function strings(): void
    {
        [$c, $k] = [$this->client, $this->key('string')];
        is(false, $c->get($k));
        is(Memcached::RES_NOTFOUND, $c->getResultCode());
        is(false, $c->replace($k, 'x'));
        is(true, $c->add($k, 'b'));
        is(false, $c->add($k, 'x'));
        is(Memcached::RES_NOTSTORED, $c->getResultCode());
        // The library appends only to values that it would not compress.
        $c->setOption(Memcached::OPT_COMPRESSION, false);
        is(true, $c->append($k, 'c'));
        is(true, $c->prepend($k, 'a'));
        $c->setOption(Memcached::OPT_COMPRESSION, $this->compresses);
        is('abc', $c->get($k));
        is(true, $c->set($k, 'value'));
        is('value', $c->get($k));
    }

    public function many(): void
    {
        $pairs = [];
        for ($i = 0; $i < 50; $i++) {
            $pairs[$this->key("many$i")] = "v$i";
        }
        is(true, $this->client->setMulti($pairs));
        $got = $this->client->getMulti([...array_keys($pairs), $this->key('absent')]);
        ksort($got);
        ksort($pairs);
        is($pairs, $got);
    }

    public function expiry(): void
    {
        [$c, $k] = [$this->client, $this->key('expiry')];
        is(true, $c->set($k, '1', 1));
        is(true, $c->touch($k, 100));
        is(true, $c->touch($k, 1));
        until('the key to expire', fn() => $c->get($k) === false);
        is(false, $c->touch($k, 100));
    }

    public function delete(): void
    {
        [$c, $k] = [$this->client, $this->key('deleted')];
        is(true, $c->set($k, '1'));
        is(true, $c->delete($k));
        is(false, $c->delete($k));
        is(Memcached::RES_NOTFOUND, $c->getResultCode());
        is(false, $c->get($k));
    }

    public function counters(): void
    {
        [$c, $k] = [$this->client, $this->key('counter')];
        is(false, $c->increment($k));
        is(true, $c->set($k, '1'));
        is(42, $c->increment($k, 41));
        is(0, $c->decrement($k, 100));
        is(7, $c->increment($k, 7));
        is(true, $c->set($this->key('word'), 'x'));
        is(false, $c->increment($this->key('word')));
        is(Memcached::RES_CLIENT_ERROR, $c->getResultCode());
    }

    public function cas(): void
    {
        [$c, $k] = [$this->client, $this->key('cas')];
        is(false, $c->cas(1.0, $k, 'x'));
        is(Memcached::RES_NOTFOUND, $c->getResultCode());
        is(true, $c->set($k, 'old'));
        $seen = $c->get($k, null, Memcached::GET_EXTENDED);
        is('old', $seen['value']);
        is(true, $this->another()->set($k, 'other'));
        is(false, $c->cas($seen['cas'], $k, 'new'));
        is(Memcached::RES_DATA_EXISTS, $c->getResultCode());
        is(true, $c->cas($c->get($k, null, Memcached::GET_EXTENDED)['cas'], $k, 'new'));
        is('new', $c->get($k));
    }

    public function binary(): void
    {
        [$c, $k, $all] = [$this->client, $this->key('binary'), str_repeat(implode('', array_map('chr', range(0, 255))), 3)];
        is(true, $c->set($k, $all));
        is($all, $c->get($k));
        is(true, $c->set($k, ''));
        is('', $c->get($k));
    }

    public function large(): void
    {
        [$c, $k, $value] = [$this->client, $this->key('large'), str_repeat("0123456789abcde\n", 62_000)];
        is(true, $c->set($k, $value));
        holds($c->get($k) === $value, 'the same value');
    }

    public function errors(): void
    {
        is(false, $this->client->set($this->key(str_repeat('long', 70)), '1'));
        holds(current($this->client->getVersion()), 'a version');
    }

    public function parallel(): void
    {
        is(true, $this->client->set($this->key('parallel'), '0'));
        // A process that ends would close a connection that it shares with this one.
        $this->client->quit();
        $workers = [];
        for ($worker = 0; $worker < 16; $worker++) {
            $workers[] = beside(function () use ($worker) {
                $c = $this->another();
                for ($i = 0; $i < 50; $i++) {
                    holds($c->increment($this->key('parallel')), 'a count');
                    is(true, $c->set($this->key("parallel$worker:$i"), "$i"));
                    is("$i", $c->get($this->key("parallel$worker:$i")));
                }
            });
        }
        foreach ($workers as $ended) {
            $ended();
        }
        is('800', $this->client->get($this->key('parallel')));
    }

    public function flush(): void
    {
        is(true, $this->client->flush());
        is(false, $this->client->get($this->key('string')));
    }
}

run(
    new Checks($host, (int) $port, $prefix, $compresses),
    ['connect', 'strings', 'many', 'expiry', 'delete', 'counters', 'cas', 'binary', 'large', 'errors', 'parallel', 'flush'],
    'php-memcached ' . phpversion('memcached'),
);
