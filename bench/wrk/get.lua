-- Reads one item after another, with the key in the body. LARDER_ITEMS bounds the numbers (100,000).
local limit = tonumber(os.getenv("LARDER_ITEMS") or "100000")
local number = -1
wrk.method = "GET"
wrk.headers["Content-Type"] = "application/json"
function request()
    number = (number + 1) % limit
    return wrk.format(nil, nil, nil, '{"key":"item' .. number .. '"}')
end
