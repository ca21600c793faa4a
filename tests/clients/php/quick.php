<?php
$url = parse_url(getenv('REDIS_URL') ?: 'redis://127.0.0.1:6380');
$redis = new Redis();
$redis->connect($url['host'], $url['port']);
$redis->set('user:1', 'Ada', ['EX' => 60]);
echo $redis->get('user:1'), "\n";
echo $redis->incr('visits'), "\n";
