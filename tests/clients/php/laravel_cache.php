<?php
require 'Illuminate/Container/autoload.php';
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Redis/autoload.php';

$url = parse_url(getenv('REDIS_URL') ?: 'redis://127.0.0.1:6380');
$server = ['default' => ['host' => $url['host'], 'port' => $url['port'], 'database' => 0]];
$redis = new Illuminate\Redis\RedisManager(new Illuminate\Container\Container(), 'phpredis', $server);
$cache = new Illuminate\Cache\Repository(new Illuminate\Cache\RedisStore($redis));
$cache->put('user:1', 'Ada', 60);
echo $cache->get('user:1'), "\n";
echo $cache->increment('visits'), "\n";
