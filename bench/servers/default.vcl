vcl 4.1;
backend default { .host = "127.0.0.1"; .port = "@source-port@"; }
sub vcl_recv {
    if (req.url == "/bad") { return (synth(400)); }
    return (hash);
}
sub vcl_backend_response { set beresp.ttl = 1h; set beresp.grace = 0s; set beresp.keep = 0s; }
