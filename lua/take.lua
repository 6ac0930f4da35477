-- Decides a batch of takes, each all or nothing, in one atomic call. The arithmetic is that of src/policy/algorithm.
--
-- KEYS     the distinct keys that the batch touches, at most 1,000; in Redis Cluster all in one slot.
-- ARGV[1]  one MessagePack array of whole numbers below 2^53, flat, indices from 1:
--            number of limits,  then for each six: kind, size, and what its kind needs
--              1 bucket         size, size_frac, tokens, period_us, burst
--              2 fixed window   limit, per_us, aligned (1 or 0), 0, 0
--              3 sliding window limit, per_us, 0, 0, 0
--              4 sliding log    limit, per_us, 0, 0, 0
--              5 concurrency    max, release_after_us, 0, 0, 0
--            number of refunds, then for each: key, limit, slot, tokens
--            number of charges, then for each: key, limit, tokens
--            number of takes,   then for each: slot, number of asks, then for each: key, limit, cost, at_least;
--              each key once in a take
-- ARGV[2]  the time in microseconds, for tests only: without it Redis is the clock. The shim never sends it.
--
-- Returns one MessagePack array of whole numbers, flat, in the order of the takes and their asks, six for each ask:
--   allowed (1 or 0), granted, remaining, reset_us, retry_after_us, delay_us
--
-- Values. Big-endian, so that they compare as they read; the first byte names the algorithm:
--   b  used 4, frac 6, at_us 7                  (token bucket, leaky bucket)
--   f  count 4, end_us 7                        (fixed window)
--   s  before 4, count 4, end_us 7, last_us 7   (sliding window)
--   l  total 2, then for each instant: at_us 7, tokens 2   (sliding log)
-- Concurrency is a sorted set of slots by expiry, under a key of its own.
-- A value of another kind or length counts as none. A state that is as good as new is deleted, every other has an
-- expiry at the moment it will be, set together with the value, and put back by any later touch if it is missing.
--
-- Numbers are doubles, so every product stays below 2^53: tokens, periods and windows are below 2^42.

local NEVER = 9007199254740991
local PLACE_RETRY = 1000000

local floor, min, max, byte, sub = math.floor, math.min, math.max, string.byte, string.sub
local pack, unpack_at = struct.pack, struct.unpack
local call = redis.call

local input = cmsgpack.unpack(ARGV[1])
local now = tonumber(ARGV[2])
-- With a clock of their own, tests must not lose keys to the clock of Redis.
local spare_ms = now and 86400000 or 2
if not now then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end

-- Quotient and remainder of a / m, exact for whole numbers below 2^53: a quotient that is not whole is at least 1 / m
-- away from the next whole number, which is more than rounding moves it.
local function divide(a, m)
  local q = floor(a / m)
  return q, a - q * m
end

-- Quotient and remainder of a * b / m; a and m below 2^42, b below 2^53. The quotient stops at NEVER.
local function muldiv(a, b, m)
  local product = a * b
  if product <= NEVER then
    return divide(product, m)
  end
  -- Horner's rule over the digits of b in base 1,024: each step's remainder * 1,024 + a * digit is below 2^53.
  local q, r = 0, 0
  local digit_at = 1125899906842624
  while digit_at >= 1 do
    local digit = floor(b / digit_at) % 1024
    local carry
    carry, r = divide(r * 1024 + a * digit, m)
    q = q * 1024 + carry
    if q > NEVER then
      return NEVER, 0
    end
    digit_at = digit_at / 1024
  end
  return q, r
end

local function aligned_end(per)
  local _, into = divide(now, per)
  return now - into + per
end

-- === Algorithms: each has load, room, take, refund, wait (until no more than `most` are used), reset and pack. ===

local bucket, fixed, sliding, log, places = {}, {}, {}, {}, {}
local algorithms = { bucket, fixed, sliding, log, places }

-- Bucket: state used, frac, at; limit size, size_frac, tokens, period, burst.

function bucket.load(state, raw, limit)
  local used, frac, at = 0, 0, now
  if raw and #raw == 18 and byte(raw) == 98 then
    local _
    _, used, frac, at = unpack_at('>BI4I6I7', raw)
  end
  local size, period = limit[2], limit[5]
  if used >= 2 * size then
    used, frac = 2 * size, 0
  elseif frac >= period then
    used, frac = used + 1, 0
  end
  if now < at then
    state.dirty = used > 0 or frac > 0
  elseif at < now then
    local drained, units = muldiv(limit[4], now - at, period)
    if used < drained or (used == drained and frac <= units) then
      used, frac = 0, 0
    elseif frac < units then
      used, frac = used - drained - 1, frac + period - units
    else
      used, frac = used - drained, frac - units
    end
  end
  state.used, state.frac = used, frac
end

-- Time until the deficit is down to whole tokens and frac units.
local function drains_to(state, limit, whole, frac)
  local tokens, units = state.used - whole, state.frac - frac
  if tokens < 0 or (tokens == 0 and units <= 0) then
    return 0
  end
  if units < 0 then
    tokens, units = tokens - 1, units + limit[5]
  end
  local us, rest = muldiv(limit[5], tokens, limit[4])
  local more, left = divide(rest + units, limit[4])
  us = us + more
  if left > 0 then
    us = us + 1
  end
  return min(us, NEVER)
end

function bucket.room(state, limit)
  local room = limit[2] - state.used
  if limit[3] < state.frac then
    room = room - 1
  end
  return max(room, 0)
end

function bucket.used(state)
  return state.used + (state.frac > 0 and 1 or 0)
end

function bucket.take(state, _, n)
  state.used = state.used + n
end

function bucket.refund(state, n)
  if state.used < n then
    state.used, state.frac = 0, 0
  else
    state.used = state.used - n
  end
end

function bucket.wait(state, limit, most)
  return drains_to(state, limit, most, limit[3])
end

function bucket.reset(state, limit)
  return drains_to(state, limit, 0, 0)
end

function bucket.pack(state)
  return pack('>BI4I6I7', 98, state.used, state.frac, now)
end

-- Fixed window: state count, finish; limit size, per, aligned.

function fixed.load(state, raw, limit)
  local count, finish = 0, 0
  if raw and #raw == 12 and byte(raw) == 102 then
    local _
    _, count, finish = unpack_at('>BI4I7', raw)
  end
  local per = limit[3]
  if count == 0 or finish <= now then
    count, finish = 0, limit[4] == 1 and aligned_end(per) or now + per
  elseif now + per < finish then
    finish = now + per
    state.dirty = true
  end
  state.count, state.finish = count, finish
end

function fixed.room(state, limit)
  return max(limit[2] - state.count, 0)
end

function fixed.used(state)
  return state.count
end

function fixed.take(state, _, n)
  state.count = state.count + n
end

function fixed.refund(state, n)
  state.count = max(state.count - n, 0)
end

function fixed.wait(state)
  return state.finish - now
end

function fixed.reset(state)
  return state.count == 0 and 0 or state.finish - now
end

function fixed.pack(state)
  return pack('>BI4I7', 102, state.count, state.finish)
end

-- Sliding window: state before, count, finish, last; limit size, per.

function sliding.load(state, raw, limit)
  local before, count, finish, last = 0, 0, 0, 0
  if raw and #raw == 23 and byte(raw) == 115 then
    local _
    _, before, count, finish, last = unpack_at('>BI4I4I7I7', raw)
  end
  local per = limit[3]
  if (before == 0 and count == 0) or last + per <= now then
    before, count, finish, last = 0, 0, aligned_end(per), now
  elseif finish <= now then
    before, count, finish = count, 0, finish + per
  elseif now + per < finish or now < last then
    finish, last = min(finish, now + per), min(last, now)
    state.dirty = true
  end
  state.before, state.count, state.finish, state.last = before, count, finish, last
end

function sliding.used(state, limit)
  if state.before == 0 then
    return state.count
  end
  local whole, rest = muldiv(state.before, state.finish - now, limit[3])
  return state.count + whole + (rest > 0 and 1 or 0)
end

function sliding.room(state, limit)
  return max(limit[2] - sliding.used(state, limit), 0)
end

function sliding.take(state, _, n)
  state.count, state.last = state.count + n, now
end

sliding.refund = fixed.refund

-- Time until what was taken last is over: nothing counts for longer than the window.
local function sliding_left(state, limit)
  return max(state.last + limit[3] - now, 0)
end

function sliding.wait(state, limit, most)
  if sliding.used(state, limit) <= most then
    return 0
  end
  local before, count, finish = state.before, state.count, state.finish
  if most < count then
    before, count, finish = count, 0, finish + limit[3]
  end
  local overlap = muldiv(limit[3], most - count, before)
  return min(max(finish - overlap - now, 0), sliding_left(state, limit))
end

function sliding.reset(state, limit)
  if state.count > 0 then
    return sliding_left(state, limit)
  end
  return state.before > 0 and min(sliding_left(state, limit), max(state.finish - now, 0)) or 0
end

function sliding.pack(state)
  return pack('>BI4I4I7I7', 115, state.before, state.count, state.finish, state.last)
end

-- Sliding log: state total, entries (nine bytes each, oldest first); limit size, per.

local function entry(state, at)
  local instant, n = unpack_at('>I7I2', state.entries, at)
  return instant, n
end

local function push(state, instant, n)
  local length = #state.entries
  if length > 0 then
    local last, count = entry(state, length - 8)
    if last == instant then
      state.entries = sub(state.entries, 1, length - 9) .. pack('>I7I2', instant, count + n)
      return
    end
  end
  state.entries = state.entries .. pack('>I7I2', instant, n)
end

function log.load(state, raw, limit)
  state.total, state.entries = 0, ''
  if not (raw and byte(raw) == 108 and #raw % 9 == 3) then
    return
  end
  local total, ahead, from, upto = unpack_at('>I2', raw, 2), 0, 1, #raw - 3
  state.entries = sub(raw, 4)
  while upto > 0 do
    local instant, n = entry(state, upto - 8)
    if instant <= now then
      break
    end
    ahead, upto = ahead + n, upto - 9
  end
  if ahead > 0 then
    state.entries = sub(state.entries, 1, upto)
    push(state, now, ahead)
    state.dirty = true
  end
  while from < #state.entries do
    local instant, n = entry(state, from)
    if now < instant + limit[3] then
      break
    end
    total, from = total - n, from + 9
  end
  if from > 1 then
    state.entries = sub(state.entries, from)
    state.dirty = true
  end
  state.total = total
end

function log.used(state)
  return state.total
end

function log.room(state, limit)
  return max(limit[2] - state.total, 0)
end

function log.take(state, _, n)
  state.total = state.total + n
  push(state, now, n)
end

function log.refund(state, n)
  while n > 0 and #state.entries > 0 do
    local length = #state.entries
    local instant, count = entry(state, length - 8)
    local given = min(count, n)
    state.total, n = state.total - given, n - given
    state.entries = sub(state.entries, 1, length - 9)
    if given < count then
      push(state, instant, count - given)
    end
  end
end

function log.wait(state, limit, most)
  local left, at = state.total, 1
  while most < left do
    local instant, n = entry(state, at)
    left, at = left - n, at + 9
    if left <= most then
      return instant + limit[3] - now
    end
  end
  return 0
end

function log.reset(state, limit)
  return log.wait(state, limit, 0)
end

function log.pack(state)
  return pack('>BI2', 108, state.total) .. state.entries
end

-- Concurrency: state count, key; limit size, release_after. Written as it goes, since a set is not one value.

function places.load(state, _, limit)
  local key, longest = state.key, now + limit[3]
  -- What is no set is not ours.
  local swept = redis.pcall('ZREMRANGEBYSCORE', key, '-inf', now)
  if type(swept) == 'table' then
    call('DEL', key)
  end
  local latest = call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  if latest and longest < tonumber(latest) then
    for _, slot in ipairs(call('ZRANGEBYSCORE', key, string.format('(%.0f', longest), '+inf')) do
      call('ZADD', key, longest, slot)
    end
  end
  state.count = latest and call('ZCARD', key) or 0
end

function places.used(state)
  return state.count
end

places.room = fixed.room

function places.take(state, limit, _, slot)
  state.count = state.count + call('ZADD', state.key, now + limit[3], string.format('%.0f', slot))
end

function places.refund(state, _, slot)
  state.count = state.count - call('ZREM', state.key, string.format('%.0f', slot))
end

function places.pack()
  return false
end

function places.wait()
  return PLACE_RETRY
end

function places.reset(state, limit)
  return state.count == 0 and 0 or limit[3]
end

-- === The batch ===

local cursor = 0

local function read()
  cursor = cursor + 1
  return input[cursor]
end

local limits, states = {}, {}
local values = call('MGET', unpack(KEYS))

-- Writes a state that was changed, always together with its expiry; for others, puts an expiry back that is missing
-- or, since the numbers changed, too early.
local function write(state, had_value)
  local reset = state.algorithm.reset(state, state.limit)
  local expiry_ms = floor(reset / 1000) + spare_ms
  if state.limit[1] == 5 then
    if state.count > 0 and (state.dirty or call('PTTL', state.key) < 0) then
      call('PEXPIRE', state.key, expiry_ms)
    end
  elseif reset == 0 then
    if state.dirty and had_value then
      call('DEL', state.key)
    end
  elseif state.dirty then
    call('SET', state.key, state.algorithm.pack(state), 'PX', expiry_ms)
  elseif call('PTTL', state.key) < reset / 1000 then
    call('PEXPIRE', state.key, expiry_ms)
  end
end

-- The state of a key under a limit, brought to now; once for the whole batch, unless the numbers differ.
local function state_of(key, index)
  local state = states[key]
  if state and state.index == index then
    return state
  end
  if state and state.dirty then
    write(state, values[key])
    values[key] = state.algorithm.pack(state)
  end
  local limit = limits[index]
  state = { key = KEYS[key], index = index, limit = limit, algorithm = algorithms[limit[1]], dirty = false }
  state.algorithm.load(state, values[key], limit)
  states[key] = state
  return state
end

for index = 1, read() do
  limits[index] = { read(), read(), read(), read(), read(), read() }
end

for _ = 1, read() do
  local state = state_of(read(), read())
  local slot, n = read(), read()
  local used = state.algorithm.used(state, state.limit)
  state.algorithm.refund(state, n, slot)
  state.dirty = state.dirty or state.algorithm.used(state, state.limit) < used
end

for _ = 1, read() do
  local state, n = state_of(read(), read()), read()
  local most = 2 * state.limit[2] - state.algorithm.used(state, state.limit)
  if state.limit[1] ~= 5 and min(n, most) > 0 then
    state.algorithm.take(state, state.limit, min(n, most))
    state.dirty = true
  end
end

local output, written = {}, 0

for _ = 1, read() do
  local slot, n_asks = read(), read()
  local asked, needed, granted = {}, {}, {}
  local all = true
  for ask = 1, n_asks do
    local state, cost, at_least = state_of(read(), read()), read(), read()
    if state.limit[1] == 5 then
      cost = min(cost, 1)
    end
    local need = max(min(at_least, cost), 1)
    local room = state.algorithm.room(state, state.limit)
    asked[ask], needed[ask] = state, need
    if need <= room then
      granted[ask] = min(cost, room)
    else
      granted[ask] = -1
      all = false
    end
  end
  if all then
    for ask = 1, n_asks do
      if granted[ask] > 0 then
        local state = asked[ask]
        state.algorithm.take(state, state.limit, granted[ask], slot)
        state.dirty = true
      end
    end
  end
  for ask = 1, n_asks do
    local state = asked[ask]
    local limit, algorithm = state.limit, state.algorithm
    local allowed, retry, delay = 1, 0, 0
    if granted[ask] < 0 then
      local most = limit[2] - needed[ask]
      allowed, retry = 0, most < 0 and NEVER or algorithm.wait(state, limit, most)
    elseif all and granted[ask] > 0 and limit[1] == 1 then
      delay = drains_to(state, limit, limit[6], 0)
    end
    output[written + 1] = allowed
    output[written + 2] = all and granted[ask] or 0
    output[written + 3] = algorithm.room(state, limit)
    output[written + 4] = algorithm.reset(state, limit)
    output[written + 5] = retry
    output[written + 6] = delay
    written = written + 6
  end
end

for key, state in pairs(states) do
  write(state, values[key])
end

return cmsgpack.pack(output)
