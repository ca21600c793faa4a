-- Stores the same item again and again.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"key":"item0","value":"a value of some length","ttl":3600}'
