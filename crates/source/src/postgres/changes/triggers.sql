-- Triggers that announce changes to Larder (changes = "notify"). The function tells the values of
-- the columns that it is given (`{}`: the primary key): old and new, many in one message. Without
-- columns it tells that something has changed.
BEGIN;

CREATE OR REPLACE FUNCTION larder_notify() RETURNS trigger LANGUAGE plpgsql AS $larder$
DECLARE
  names text[];
  columns text;
  source text;
  message text;
BEGIN
  IF TG_OP = 'TRUNCATE' OR TG_NARGS = 0 THEN
    PERFORM pg_notify('larder_changes', json_build_array(TG_RELID::bigint)::text);
    RETURN NULL;
  END IF;
  FOR i IN 0 .. TG_NARGS - 1 LOOP
    names := TG_ARGV[i]::text[];
    IF names = '{}' THEN
      names := ARRAY(SELECT a.attname::text FROM pg_index p JOIN pg_attribute a ON a.attrelid = p.indrelid
        AND a.attnum = ANY ((p.indkey::int2[])[0:p.indnkeyatts - 1])
        WHERE p.indrelid = TG_RELID AND p.indisprimary
        ORDER BY array_position(p.indkey::int2[], a.attnum));
    END IF;
    SELECT string_agg(format('%I::text', name), ' || '':'' || ') INTO columns FROM unnest(names) AS name;
    source := CASE TG_OP
      WHEN 'INSERT' THEN format('SELECT %s FROM larder_new', columns)
      WHEN 'DELETE' THEN format('SELECT %s FROM larder_old', columns)
      ELSE format('SELECT %1$s FROM larder_old UNION SELECT %1$s FROM larder_new', columns)
    END;
    -- A message of NOTIFY has less than 8000 bytes. A value that is too long clears the table.
    FOR message IN EXECUTE format(
      'SELECT CASE WHEN bool_or(octet_length(to_json(v)::text) > 1000) THEN json_build_array(%1$s::bigint)
         ELSE json_build_array(%1$s::bigint, %2$L::json, json_agg(v)) END::text
       FROM (SELECT v, sum(least(octet_length(to_json(v)::text), 1000) + 2) OVER (ORDER BY v) / 6000 AS batch
             FROM (SELECT DISTINCT v FROM (%3$s) AS changed(v) WHERE v IS NOT NULL) AS distinct_values) AS batches
       GROUP BY batch', TG_RELID::bigint, to_json(names), source)
    LOOP
      PERFORM pg_notify('larder_changes', message);
    END LOOP;
  END LOOP;
  RETURN NULL;
END
$larder$;
