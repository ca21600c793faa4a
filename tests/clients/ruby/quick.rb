require 'redis'

redis = Redis.new(url: ENV.fetch('REDIS_URL', 'redis://127.0.0.1:6380'))
redis.set('user:1', 'Ada', ex: 60)
puts redis.get('user:1')
puts redis.incr('visits')
