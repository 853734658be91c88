# What peers/sidekiq.py runs: ruby sidekiq.rb <VERB> [<ARGUMENT>...]. The verbs are those of bench/drive.py.

require "json"
require "sidekiq"

CONCURRENCY = 10 # threads, its default
CHUNK = 1000 # jobs of one push_bulk, its default
FOLDER = ENV["BENCH_FOLDER"]
SETTINGS = { url: ENV["BENCH_URL"], logger: nil }.compact

Sidekiq.configure_client { |config| config.redis = SETTINGS.merge(size: 1) }
Sidekiq.configure_server do |config|
  config.redis = SETTINGS
  config.options[:poll_interval_average] = 0.5 # seconds between two looks at what is scheduled
end

def nanoseconds = Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)

class Job
  include Sidekiq::Worker
  sidekiq_options retry: false

  # The format of bench/record.py.
  def perform(number)
    RUNS.syswrite([number + 1, nanoseconds].pack("q2"))
  end
end

def work
  require "sidekiq/cli"
  Object.const_set(:RUNS, File.open(File.join(FOLDER, "#{Process.pid}.runs"), "ab"))
  Sidekiq.logger.level = Logger::ERROR
  cli = Sidekiq::CLI.instance
  cli.parse(["-r", __FILE__, "-c", CONCURRENCY.to_s, "-e", "production"])
  cli.run
end

# Seconds for `count` jobs, after a first one, which opens the connection.
def timed(first, count)
  first, count = Integer(first), Integer(count)
  Job.perform_async(first)
  began = nanoseconds
  yield ((first + 1)...(first + count))
  puts (nanoseconds - began) / 1e9 * count / (count - 1)
end

def enqueue(first, count) = timed(first, count) { |numbers| numbers.each { |number| Job.perform_async(number) } }

def enqueue_many(first, count)
  timed(first, count) do |numbers|
    numbers.each_slice(CHUNK) { |part| Sidekiq::Client.push_bulk("class" => Job, "args" => part.zip) }
  end
end

# Set jobs at the instants of a file: pairs of number and epoch seconds.
def schedule(path)
  jobs = JSON.parse(File.read(path))
  jobs.each { |number, moment| Job.perform_at(moment, number) }
  puts jobs.length
end

# The same steps as `wakeups` in bench/drive.py.
def wakeups(count)
  began = Array.new(Integer(count)) do |number|
    sleep 0.01 + 0.02 * rand
    moment = nanoseconds
    Job.perform_async(number)
    sleep 0.005
    sleep 0.002 while runs.length <= 2 * number
    moment
  end
  started = runs
  puts JSON.dump(began.each_with_index.map { |moment, number| (started[2 * number + 1] - moment) / 1e6 })
end

# The cells of the one worker, whose jobs come one after the other.
def runs
  path = Dir.glob(File.join(FOLDER, "*.runs")).first
  path ? File.binread(path).unpack("q*") : []
end

def describe
  settings = "1 process, #{CONCURRENCY} threads, retry: false"
  versions = { sidekiq: Sidekiq::VERSION, ruby: RUBY_VERSION }
  puts JSON.dump({ abilities: %w[enqueue enqueue_many schedule wakeups work], versions:, settings:, jobs: 60_000 })
end

send(ARGV[0], *ARGV[1..]) if $PROGRAM_NAME == __FILE__
