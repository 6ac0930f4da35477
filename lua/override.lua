-- Keeps the overrides: other numbers for single keys, each for a time.
--
-- KEYS[1]  hash; field `version`, and one field for each override: "<namespace>/<limit>/<key>"
--          with the value "<end of its life, ms since 1970>:<numbers as JSON>"
-- ARGV[1]  what to do:
--   "read"   ARGV[2] version the caller knows
--   "set"    ARGV[2] field, ARGV[3] numbers, ARGV[4] life in ms, ARGV[5] most overrides
--   "unset"  ARGV[2] field
-- Returns
--   read:   {now in ms, version} if the caller is up to date, else {now in ms, version, field, value, ...}
--   set:    1, or 0 if there are too many
--   unset:  1, or 0 if there was none
--
-- The version is the time of the change in microseconds, or one more than the last: it never repeats, even after the
-- hash has gone, so a reader never takes an old state for a new one. The hash lives as long as its longest override.

local hash = KEYS[1]
local action = ARGV[1]
local time = redis.call('TIME')
local now_us = tonumber(time[1]) * 1000000 + tonumber(time[2])
local now_ms = (now_us - now_us % 1000) / 1000

if action == 'read' then
  local version = redis.call('HGET', hash, 'version') or '0'
  if version == ARGV[2] then
    return {now_ms, version}
  end
  local reply = {now_ms, version}
  local all = redis.call('HGETALL', hash)
  for i = 1, #all, 2 do
    if all[i] ~= 'version' then
      reply[#reply + 1] = all[i]
      reply[#reply + 1] = all[i + 1]
    end
  end
  return reply
end

-- Those that have run out make room; of the others the longest life counts.
local field = ARGV[2]
local count = 0
local latest_ms = now_ms + 1000
local existed = 0
local all = redis.call('HGETALL', hash)
for i = 1, #all, 2 do
  local name = all[i]
  if name ~= 'version' then
    local until_ms = tonumber(string.match(all[i + 1], '^(%d+):') or '0')
    if until_ms <= now_ms then
      redis.call('HDEL', hash, name)
    elseif name == field then
      existed = 1
    else
      count = count + 1
      if until_ms > latest_ms then
        latest_ms = until_ms
      end
    end
  end
end

local result
if action == 'set' then
  if count >= tonumber(ARGV[5]) then
    return 0
  end
  local until_ms = now_ms + tonumber(ARGV[4])
  if until_ms > latest_ms then
    latest_ms = until_ms
  end
  redis.call('HSET', hash, field, string.format('%.0f:%s', until_ms, ARGV[3]))
  result = 1
else
  redis.call('HDEL', hash, field)
  result = existed
end

local version = tonumber(redis.call('HGET', hash, 'version') or '0') + 1
if version < now_us then
  version = now_us
end
redis.call('HSET', hash, 'version', string.format('%.0f', version))
-- A minute beyond the end: readers that poll late still see the last change.
redis.call('PEXPIREAT', hash, string.format('%.0f', latest_ms + 60000))
return result
