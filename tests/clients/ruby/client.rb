# redis-rb with its default settings through both scripts (../README.md): client.rb checks|matrix HOST:PORT PREFIX
require 'redis'

ADD = "return redis.call('INCRBY', KEYS[1], ARGV[1])".freeze
SCRIPTS = {
  'checks' => %i[handshake strings many expiry delete counters binary large pipeline transaction errors parallel],
  'matrix' => %i[connect strings expiry pipeline transaction pubsub blocking_pop hash script reconnect]
}.freeze

# The checks; each ends with an error or not.
class Checks
  def initialize(host, port, prefix)
    @host = host
    @port = port
    @prefix = prefix
    @redis = another
  end

  def another
    Redis.new(host: @host, port: @port)
  end

  def key(name)
    "#{@prefix}:#{name}"
  end

  def holds(truth, what)
    raise what.inspect[0, 300] unless truth
  end

  def is(want, got)
    holds(want == got, { got: got, want: want })
  end

  # Demands an error whose text begins so.
  def refused(text)
    yield
  rescue Redis::CommandError => e
    holds(e.message.start_with?(text), e.message)
  else
    raise "no error, not #{text}"
  end

  def until_done(what)
    give_up = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 20
    until yield
      holds(Process.clock_gettime(Process::CLOCK_MONOTONIC) < give_up, "waited too long: #{what}")
      sleep 0.005
    end
  end

  def handshake
    holds(@redis.call(%w[CLIENT ID]).positive?, 'a number')
    named = another
    is('OK', named.client(:setname, 'larder-test'))
    is('larder-test', named.client(:getname))
  end

  def connect
    is('PONG', @redis.ping)
    is('hello', @redis.echo('hello'))
  end

  def strings
    k = key('string')
    is(nil, @redis.get(k))
    is('OK', @redis.set(k, 'value'))
    is('value', @redis.get(k))
    is(false, @redis.set(k, 'other', nx: true))
    is(false, @redis.set(key('absent'), 'other', xx: true))
    is(6, @redis.append(k, '!'))
    is('value!', @redis.get(k))
    is('alu', @redis.getrange(k, 1, 3))
    is(6, @redis.strlen(k))
    is(['value!', nil], @redis.mget(k, key('absent')))
    is('value!', @redis.getset(k, '3'))
    is('3', @redis.getdel(k))
    is(nil, @redis.get(k))
  end

  def many
    pairs = (0...50).to_h { |i| [key("many#{i}"), "v#{i}"] }
    is('OK', @redis.mapped_mset(pairs))
    is(pairs.values.insert(7, nil), @redis.mget(pairs.keys.insert(7, key('absent'))))
  end

  def expiry
    k = key('expiry')
    is('OK', @redis.set(k, '1', ex: 100))
    holds((98..100).cover?(@redis.ttl(k)), @redis.ttl(k))
    is(true, @redis.persist(k))
    is(-1, @redis.ttl(k))
    is(true, @redis.pexpire(k, 60))
    until_done('the key to expire') { @redis.get(k).nil? }
    is(-2, @redis.ttl(k))
  end

  def delete
    a = key('a')
    b = key('b')
    is('OK', @redis.mset(a, '1', b, '2'))
    is(2, @redis.exists(a, b, key('absent')))
    is(1, @redis.del(a, key('absent')))
    is(nil, @redis.get(a))
    is(1, @redis.unlink(b))
    is(0, @redis.exists(a, b))
  end

  def counters
    k = key('counter')
    is(1, @redis.incr(k))
    is(42, @redis.incrby(k, 41))
    is(41, @redis.decr(k))
    is('41', @redis.get(k))
    is(41.5, @redis.incrbyfloat(k, 0.5))
    refused('ERR value is not an integer or out of range') { @redis.incr(k) }
  end

  def binary
    all = (0..255).map(&:chr).join.b
    k = key('binary').b + all
    is('OK', @redis.set(k, all * 3))
    is(all * 3, @redis.get(k).b)
    is('OK', @redis.set(k, ''))
    is('', @redis.get(k))
  end

  def large
    k = key('large')
    value = "0123456789abcde\n" * (512 * 1024)
    is('OK', @redis.set(k, value))
    holds(@redis.get(k) == value, 'the same 8 MiB')
    is(1, @redis.del(k))
  end

  def pipeline
    replies = @redis.pipelined do |pipe|
      500.times { |i| [pipe.set(key("pipe#{i}"), i), pipe.get(key("pipe#{i}"))] }
    end
    is((0...500).flat_map { |i| ['OK', i.to_s] }, replies)
    # The library raises the first error when it has read all replies.
    word = key('word')
    refused('ERR value is not an integer') do
      @redis.pipelined { |pipe| [pipe.set(word, 'x'), pipe.incr(word), pipe.append(word, 'y')] }
    end
    is('xy', @redis.get(word))
  end

  def transaction
    k = key('balance')
    is('OK', @redis.set(k, 10))
    is([15, '15', ['15', nil]], @redis.multi { |tx| [tx.incrby(k, 5), tx.get(k), tx.mget(k, key('absent'))] })
    [true, false].each do |meanwhile|
      done = @redis.watch(k) do
        seen = @redis.get(k).to_i
        is('OK', another.set(k, 100)) if meanwhile
        @redis.multi { |tx| tx.set(k, seen * 2) }
      end
      is(meanwhile ? nil : ['OK'], done)
    end
    is('200', @redis.get(k))
  end

  def errors
    refused("ERR unknown command 'NOSUCHCOMMAND'") { @redis.call(%w[NOSUCHCOMMAND a]) }
    is('PONG', @redis.ping)
  end

  def parallel
    workers = (0...16).map do |worker|
      Thread.new do
        r = another
        50.times do |i|
          r.incr(key('parallel'))
          is('OK', r.set(key("parallel#{worker}:#{i}"), i))
          is(i.to_s, r.get(key("parallel#{worker}:#{i}")))
        end
      end
    end
    workers.each(&:value)
    is('800', @redis.get(key('parallel')))
  end

  def pubsub
    channel = key('channel')
    listener = another
    heard = []
    told = Queue.new
    thread = Thread.new do
      listener.subscribe(channel) do |on|
        on.subscribe { |from, count| told << [:subscribe, from, count] }
        on.unsubscribe { |from, count| told << [:unsubscribe, from, count] }
        on.message do |from, message|
          heard << [from, message.b]
          listener.unsubscribe(channel) if message == 'end'
        end
      end
    end
    is([:subscribe, channel, 1], told.pop)
    sent = ['hello', "\0\r\n\xff".b, 'end']
    sent.each { |message| is(1, @redis.publish(channel, message)) }
    is([:unsubscribe, channel, 0], told.pop)
    thread.value
    is(sent.map { |message| [channel, message] }, heard)
    is(0, @redis.publish(channel, 'nobody'))
  end

  def blocking_pop
    ask = key('ask')
    answer = key('answer')
    is(nil, @redis.blpop(ask, timeout: 0.05))
    echo = Thread.new do
      r = another
      20.times { r.rpush(answer, r.brpop(ask, timeout: 20)[1]) }
    end
    20.times do |i|
      is(1, @redis.lpush(ask, i))
      is([answer, i.to_s], @redis.blpop(answer, timeout: 20))
    end
    echo.value
  end

  def hash
    k = key('hash')
    is(2, @redis.hset(k, 'name', 'Ada', 'age', 36))
    is('Ada', @redis.hget(k, 'name'))
    is({ 'name' => 'Ada', 'age' => '36' }, @redis.hgetall(k))
    is(37, @redis.hincrby(k, 'age', 1))
    is(['37', nil], @redis.hmget(k, 'age', 'absent'))
    is(1, @redis.hdel(k, 'name'))
    is({ 'age' => '37' }, @redis.hgetall(k))
  end

  def script
    k = key('script')
    is('OK', @redis.set(k, 1))
    is('1', @redis.get(k))
    is(3, @redis.eval(ADD, [k], [2]))
    is('3', @redis.get(k))
    refused('NOSCRIPT') { @redis.evalsha('0' * 40, [k], [4]) }
    sha = @redis.script(:load, "#{ADD} -- #{k}")
    is(7, @redis.evalsha(sha, [k], [4]))
    is('7', @redis.get(k))
  end

  def reconnect
    %w[restart crash].each do |how|
      channel = key("news of a #{how}")
      lost = Queue.new
      Thread.new do
        another.subscribe(channel) { |on| on.subscribe { lost << 'subscribed' } }
      rescue Redis::BaseConnectionError
        lost << 'lost'
      end
      is('subscribed', lost.pop)
      @redis.get(key('before'))
      puts how
      is("done\n", $stdin.gets)
      # A command sees no error: the library connects again and tries once more. A subscription ends with an error.
      is('OK', @redis.set(key('after'), how))
      is(how, @redis.get(key('after')))
      is('lost', lost.pop)
    end
  end
end

$stdout.sync = true
script, address, prefix = ARGV
host, port = address.split(':')
checks = Checks.new(host, port.to_i, prefix)
failed = 0
SCRIPTS.fetch(script).each do |name|
  checks.public_send(name)
  puts "ok #{name}"
rescue StandardError => e
  failed += 1
  puts "FAILED #{name}: #{e.class}: #{e.message}\n  #{e.backtrace.grep(/client.rb/).first(3).join("\n  ")}"
end
puts "redis-rb #{Redis::VERSION}: #{SCRIPTS.fetch(script).size - failed} passed, #{failed} failed"
exit(failed.zero?)
