require 'active_support'
require 'active_support/cache'

url = ENV.fetch('REDIS_URL', 'redis://127.0.0.1:6380')
cache = ActiveSupport::Cache.lookup_store(:redis_cache_store, { url: url })
cache.write('user:1', 'Ada', expires_in: 60)
puts cache.read('user:1')
puts cache.increment('visits')
