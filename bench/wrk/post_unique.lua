-- Stores one item after another, each under a key of its own: "item" and a number. LARDER_ITEMS bounds the numbers (100,000).
local limit = tonumber(os.getenv("LARDER_ITEMS") or "100000")
local number = -1
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
function request()
    number = (number + 1) % limit
    return wrk.format(nil, nil, nil, '{"key":"item' .. number .. '","value":"a value of some length","ttl":3600}')
end
