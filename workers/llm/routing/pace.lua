-- The state of one account that all workers share: KEYS[1]. ARGV[1] is a call of `pace.py` as JSON.
--
-- All times are milliseconds by the clock of Redis. A change is one call of this script, which never waits: it tells a
-- worker in how many milliseconds to ask again. What cannot be read as a state counts as none.

local FIRST_OUTPUT = 1000    -- tokens expected of an answer of a model that has given none
local RESERVE = 0.05         -- the share of a limit that is left alone: an estimate may be too low
local MINUTE = 60000
local LIKE = 0.2             -- vendors tell whole seconds: times that differ by a fifth are the same
local TOLD_SHARE = 0.1       -- the difference in use from which the time of a limit's refill is computed
local LOOK = 250             -- when to ask again for one of the places in flight
local LATE = 2000            -- a waiting call that is so late has given up
local LONGEST_FLIGHT = 1200000
local UNKNOWN_AT_ONCE = 2    -- calls of a model of which no answer has come yet; one more each second
local MOST_AT_ONCE = 512
local LEAST_PAUSE, FIRST_PAUSE, LONGEST_PAUSE = 500, 2000, 60000
local KEEP = 3600000

local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local call = cjson.decode(ARGV[1])

local function fresh()
  return {version = 1, cool = 0, strikes = 0, reached = 0, seq = 0,
          runs = {}, flying = {}, waiting = {}, models = {}}
end

local function load()
  local found = redis.call('get', KEYS[1])
  local read, state = pcall(cjson.decode, found or '')
  if read and type(state) == 'table' and state.version == 1 then return state end
  return fresh()
end

local function count(set)
  local number = 0
  for _ in pairs(set) do number = number + 1 end
  return number
end

-- What has become true by the passing of time alone.
local function catch_up(state)
  for _, model in pairs(state.models) do
    for _, bucket in pairs(model.buckets) do
      local refill = bucket.limit * math.max(0, now - bucket.at) / bucket.window
      bucket.level, bucket.at = math.min(bucket.limit, bucket.level + refill), now
    end
  end
  for id, flight in pairs(state.flying) do
    if flight.at + LONGEST_FLIGHT < now then state.flying[id] = nil end
  end
  for id, waiter in pairs(state.waiting) do
    if waiter.expires < now then state.waiting[id] = nil end
  end
  if state.width then
    local minutes = math.max(0, math.floor((now - state.grown) / MINUTE))
    state.width, state.grown = state.width + minutes, state.grown + minutes * MINUTE
    if state.width > MOST_AT_ONCE then state.width = nil end
  end
  if state.open and now - state.cool > MINUTE then state.open = nil end
end

local function model_of(state, name)
  state.models[name] = state.models[name] or {buckets = {}, output = FIRST_OUTPUT, asked = now}
  return state.models[name]
end

-- The bucket holds this much more, at most as much as its limit.
local function fill(model, unit, amount)
  local bucket = model.buckets[unit]
  if not bucket then return end
  bucket.level, bucket.taken = math.min(bucket.limit, bucket.level + amount), bucket.taken - amount
end

local function fill_all(model, input, output)
  fill(model, 'input', input)
  fill(model, 'output', output)
  fill(model, 'tokens', input + output)
end

-- The part of the account that a call takes: the greatest share of any limit.
local function share(model, needs)
  local most = 0
  for unit, bucket in pairs(model.buckets) do most = math.max(most, needs[unit] / bucket.limit) end
  return math.max(most, 0.0001)
end

local function needs_of(input, output)
  return {requests = 1, input = input, output = output, tokens = input + output}
end

-- The milliseconds until these levels allow the call, and the levels after it.
local function draw(model, levels, needs)
  local wait = 0
  for unit, bucket in pairs(model.buckets) do
    local reserve = bucket.limit * RESERVE
    local need = math.min(needs[unit], bucket.limit - reserve)
    local missing = need - (levels[unit] - reserve)
    if missing > 0 then wait = math.max(wait, missing * bucket.window / bucket.limit) end
    levels[unit] = levels[unit] - needs[unit]
  end
  return wait
end

-- All waiting calls in their turn. Each run has the same share: a call's tag is what its run has had before it, and a
-- run that comes anew begins where the others are.
local function in_turn(state)
  local line, had = {}, {}
  for id, waiter in pairs(state.waiting) do line[#line + 1] = {id = id, waiter = waiter} end
  table.sort(line, function(one, other) return one.waiter.seq < other.waiter.seq end)
  for _, place in ipairs(line) do
    local run, model = place.waiter.run, state.models[place.waiter.model]
    place.tag = math.max(state.reached, had[run] or state.runs[run] or 0)
    place.needs = needs_of(place.waiter.input, place.waiter.output)
    place.share = share(model, place.needs)
    had[run] = place.tag + place.share
  end
  table.sort(line, function(one, other)
    if one.tag ~= other.tag then return one.tag < other.tag end
    return one.waiter.seq < other.waiter.seq
  end)
  return line
end

local function free_places(state)
  local most = math.min(state.width or MOST_AT_ONCE, MOST_AT_ONCE)
  -- After a pause one call goes first. Each answer lets one more go, and so does each second.
  if state.open then most = math.min(most, state.open + math.floor(math.max(0, now - state.cool) / 1000)) end
  return most - count(state.flying)
end

local function free_while_unknown(state, name)
  local model, flying = state.models[name], 0
  if model.heard then return MOST_AT_ONCE end
  for _, flight in pairs(state.flying) do
    if flight.model == name then flying = flying + 1 end
  end
  return UNKNOWN_AT_ONCE + math.floor((now - model.asked) / 1000) - flying
end

-- The milliseconds after which the call may ask again; 0 where its turn has come and all limits allow it.
local function time_to_wait(state, id)
  local free, levels, before = free_places(state), {}, 0
  for _, place in ipairs(in_turn(state)) do
    local name = place.waiter.model
    local model = state.models[name]
    if not levels[name] then
      levels[name] = {}
      for unit, bucket in pairs(model.buckets) do levels[name][unit] = bucket.level end
    end
    local wait = draw(model, levels[name], place.needs)
    if place.id == id then
      if now < state.cool then return state.cool - now + before * 20 end
      if wait == 0 and (free <= 0 or free_while_unknown(state, name) <= 0) then wait = LOOK end
      return math.ceil(wait), place
    end
    if wait == 0 then free = free - 1 end
    before = before + 1
  end
end

local function ask(state)
  local model = model_of(state, call.model)
  local waiter = state.waiting[call.id] or {run = call.run, model = call.model, seq = state.seq + 1}
  state.seq = math.max(state.seq, waiter.seq)
  waiter.input = call.input
  waiter.output = math.min(model.output, call.most)
  waiter.expires = now + LATE
  state.waiting[call.id] = waiter
  local wait, place = time_to_wait(state, call.id)
  if wait > 0 then
    waiter.expires = now + wait + LATE
    return {wait, math.max(0, state.cool - now)}
  end
  local first = in_turn(state)[1]
  state.waiting[call.id] = nil
  fill_all(model, -waiter.input, -waiter.output)
  fill(model, 'requests', -1)
  state.reached = math.max(state.reached, first.tag)
  state.runs[call.run] = math.max(state.reached, state.runs[call.run] or 0) + place.share
  for run, had in pairs(state.runs) do
    if had < state.reached then state.runs[run] = nil end
  end
  local flight = {run = call.run, model = call.model, input = waiter.input, output = waiter.output, at = now}
  flight.taken = {}
  for unit, bucket in pairs(model.buckets) do flight.taken[unit] = bucket.taken end
  state.flying[call.id] = flight
  return {0, 0}
end

local function is_like(one, other)
  return math.abs(one - other) <= LIKE * other
end

-- A limit is one of a minute, unless answers that tell of different use agree in another time. Where a vendor restores
-- its whole limit at one moment, they do not agree, and a minute's refill is as much as it gives in the end.
local function learn_window(bucket, told)
  local used = (told.limit - told.remaining) / told.limit
  if not told.reset or told.reset <= 0 or used < TOLD_SHARE then return end
  local window = math.max(100, told.reset / used)
  if bucket.guess and math.abs(used - bucket.used) < TOLD_SHARE then return end
  if bucket.guess and is_like(window, bucket.guess) then
    bucket.window = is_like(window, MINUTE) and MINUTE or window
  end
  bucket.guess, bucket.used = window, used
end

-- What the calls that the vendor may not have seen yet will take of a bucket.
local function unseen(state, unit)
  local sum = 0
  for id, flight in pairs(state.flying) do
    if flight.model == call.model and id ~= call.id and not flight.heard then
      sum = sum + needs_of(flight.input, flight.output)[unit]
    end
  end
  return sum
end

-- A vendor's answer tells its limits as they were when the call reached it. Since then, other calls have taken of them,
-- and they were refilled.
local function hear(state)
  local model, flight = model_of(state, call.model), state.flying[call.id]
  model.heard = true
  if flight then flight.heard = true end
  for unit, told in pairs(call.limits) do
    local bucket, later = model.buckets[unit], unseen(state, unit)
    if not bucket then
      bucket = {limit = told.limit, level = told.remaining - later, window = MINUTE, at = now, taken = 0}
      model.buckets[unit] = bucket
    end
    learn_window(bucket, told)
    bucket.limit = told.limit
    local since = flight and flight.taken[unit] and bucket.taken - flight.taken[unit]
    if since then
      local refill = told.limit * (now - flight.at) / bucket.window
      local most = math.min(told.limit, told.remaining + refill) - since
      bucket.level = math.max(told.remaining - since - later, math.min(bucket.level, most))
    else
      bucket.level = math.min(bucket.level, told.remaining)
    end
  end
end

local function halve(state, flight)
  -- Calls that were in flight together are refused together, which says the same thing once.
  if flight and flight.at <= (state.halved or 0) then return end
  local flying = count(state.flying) + 1
  state.width = math.max(1, math.floor(math.min(state.width or flying, flying) / 2))
  state.strikes, state.halved = state.strikes + 1, now
end

local function done(state)
  local model, flight = model_of(state, call.model), state.flying[call.id]
  state.flying[call.id], state.waiting[call.id] = nil, nil
  if flight then
    fill_all(model, flight.input - call.input, flight.output - call.output)
    local less = share(model, needs_of(flight.input, flight.output)) - share(model, needs_of(call.input, call.output))
    if state.runs[flight.run] then state.runs[flight.run] = state.runs[flight.run] - less end
  end
  if call.output > 0 then model.output = 0.8 * model.output + 0.2 * call.output end
  if call.ended == 'refused' then
    halve(state, flight)
    local pause = call.pause or math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ^ (state.strikes - 1))
    state.cool = math.max(state.cool, now + math.max(LEAST_PAUSE, pause))
    state.open, state.grown = 1, now
  elseif call.ended == 'answered' and now >= state.cool then
    state.strikes = 0
    if state.open then state.open = state.open + 1 end
  end
end

local function leave(state)
  state.waiting[call.id] = nil
end

local function change()
  local state = load()
  catch_up(state)
  if call.limits then hear(state) end
  local answer = {0, 0}
  if call.op == 'ask' then answer = ask(state) elseif call.op == 'done' then done(state)
  elseif call.op == 'leave' then leave(state) end
  local keep = math.max(KEEP, state.cool - now + MINUTE)
  redis.call('set', KEYS[1], cjson.encode(state), 'PX', string.format('%.0f', keep))
  return answer
end

local done_well, answer = pcall(change)
if done_well then return answer end
-- Another program's or another version's value.
redis.call('del', KEYS[1])
return {0, 0}
