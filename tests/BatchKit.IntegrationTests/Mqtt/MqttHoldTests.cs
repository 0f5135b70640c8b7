using System.Diagnostics;
using System.Globalization;
using System.Reflection;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;

namespace BatchKit.IntegrationTests.Mqtt;

[Collection(MqttHoldCollection.Name)]
[Trait("Lane", "faults: a load lasts for seconds")]
public sealed class MqttHoldTests(ITestOutputHelper report)
{
    private const int MessagesPerSecond = 20_000;
    private const int MaxBurst = 2000;
    private const int MaxPending = 20_000;
    private const int Handles = 20;
    private const int MessagesPerCall = 1000;
    private const long MaxGrowthBytes = 5_000_000;
    private const long PooledBytesPerMessage = 1024;

    // Half of the smallest object (24 bytes): what else the process does meanwhile makes objects too, more of them for a message on a slow machine.
    private const long MaxBytesPerMessage = 12;

    private static readonly TimeSpan Tick = TimeSpan.FromMilliseconds(8);

    // A third of what the environment gives a test under load, because there are two of them: 3 s each in CI, 60 s with 180.
    private static readonly TimeSpan Time =
        TimeSpan.FromSeconds(int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_SECONDS") ?? "10", CultureInfo.InvariantCulture) / 3.0);

    public static TheoryData<MqttVersion> Versions => [MqttVersion.V5, MqttVersion.V311];

    [Theory]
    [MemberData(nameof(Versions))]
    public async Task At_20_000_messages_a_second_nothing_is_lost_little_waits_and_memory_stays_flat(MqttVersion version)
    {
        await using var server = await StartServerAsync();
        var options = MqttWay.Options(server.Port, version);
        await using var way = await MqttWay.StartAsync(options, options);
        var handles = Enumerable.Range(0, Handles).Select(MqttWay.Topic).ToArray();

        var (written, mostPending) = await WriteAsync(way, handles, written: 0, Time / 3);
        var before = GC.GetTotalMemory(forceFullCollection: true);
        var startedAt = Stopwatch.GetTimestamp();
        (var total, mostPending) = await WriteAsync(way, handles, written, 2 * Time / 3);
        var elapsed = Stopwatch.GetElapsedTime(startedAt);
        var after = GC.GetTotalMemory(forceFullCollection: true);

        var statistics = way.Output.GetStatistics();
        report.WriteLine($"{(total - written) / elapsed.TotalSeconds:N0} messages/s, at most {mostPending} waited, memory {before / 1024:N0} and {after / 1024:N0} KiB.");
        Assert.Equal((total, total, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.PendingMessages));
        Assert.Equal(total, way.Arrived.Count);
        Assert.Empty(way.Arrived.Gaps);
        Assert.Equal(0, way.Arrived.Repeats);
        Assert.InRange(mostPending, 0, MaxPending);
        // The pools keep what held the most messages that ever waited, which a busy machine makes more of.
        Assert.True(after - before < MaxGrowthBytes + (mostPending * PooledBytesPerMessage), $"The heap grew by {after - before} bytes.");
    }

    [Theory]
    [MemberData(nameof(Versions))]
    public async Task Publishing_many_allocates_nothing_for_a_message(MqttVersion version)
    {
        var isUnoptimized = typeof(MqttTransport).Assembly.GetCustomAttribute<DebuggableAttribute>() is { IsJITOptimizerDisabled: true };
        Assert.SkipWhen(isUnoptimized, "The debug build makes an object of each async method's state; run with -c Release.");
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        await using var server = await StartServerAsync();

        // A subscriber in a process of its own, or the broker would say of each message that it has none, which is kept for the report.
        var subscriber = MosquittoProgram.SubscribeAsync(server, "-q", "0", "-t", "#", "-T", "way/#", "-C", "1");
        await using var transport = new MqttTransport(MqttWay.Options(server.Port, version));
        var messages = Array.ConvertAll([.. Enumerable.Range(0, MessagesPerCall)], number => new MqttMessage($"way/{number % Handles}", Some.RandomBytes(100)));
        await WaitForSubscriberAsync(transport, messages.AsMemory(0, 1));

        // What is compiled or pooled on the way makes some objects at first, and the optimized code comes after a while.
        var bytes = long.MaxValue;
        for (var until = Environment.TickCount64 + 20_000; bytes > MaxBytesPerMessage && Environment.TickCount64 < until;)
            bytes = await BytesPerMessageAsync(transport, messages, calls: 20);

        await transport.PublishManyAsync(new[] { new MqttMessage("end", Some.Bytes("end")) });
        await subscriber.WithinDeadline();
        Assert.InRange(bytes, 0, MaxBytesPerMessage);
    }

    /// <summary>Writes at the steady rate, waits until all has arrived, and returns how many there are now and the most that waited.</summary>
    private static async Task<(long Written, long MostPending)> WriteAsync(MqttWay way, OutputHandle[] handles, long written, TimeSpan time)
    {
        var (first, mostPending) = (written, 0L);
        var payload = new byte[100];
        payload.AsSpan().Fill((byte)' ');
        using var ticks = new PeriodicTimer(Tick);
        for (var startedAt = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(startedAt) < time && await ticks.WaitForNextTickAsync();)
        {
            // Behind its time it catches up by and by, and only while little waits: a machine that is too slow for the rate is not what is tested.
            var pending = way.Output.GetStatistics().PendingMessages;
            mostPending = Math.Max(mostPending, pending);
            var due = first + (long)(Stopwatch.GetElapsedTime(startedAt).TotalSeconds * MessagesPerSecond);
            due = pending < MaxPending / 2 ? Math.Min(due, written + MaxBurst) : written;
            using var scope = way.Output.BeginBufferingScope();
            for (; written < due; written++)
            {
                (written / Handles).TryFormat(payload, out _, provider: CultureInfo.InvariantCulture);
                way.Output.Write(handles[written % Handles], payload);
            }
        }

        await way.Output.FlushAsync().WithinDeadline();
        await way.Arrived.WaitForCountAsync(written);
        return (written, mostPending);
    }

    private static async Task<long> BytesPerMessageAsync(MqttTransport transport, ReadOnlyMemory<MqttMessage> messages, int calls)
    {
        var before = GC.GetTotalAllocatedBytes(precise: true);
        for (var call = 0; call < calls; call++)
            Assert.True((await transport.PublishManyAsync(messages)).IsSuccess);
        return (GC.GetTotalAllocatedBytes(precise: true) - before) / (calls * messages.Length);
    }

    private static Task WaitForSubscriberAsync(MqttTransport transport, ReadOnlyMemory<MqttMessage> messages) =>
        Until.TrueAsync(async () => (await transport.PublishManyAsync(messages))[0].ReasonCode != MqttReasonCode.NoMatchingSubscribers);

    private static Task<MosquittoServer> StartServerAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        return MosquittoServer.StartOwnAsync(new MosquittoServerOptions { MaxQueued = 0 });
    }
}

/// <summary>What must hold under a steady load, measured with no test beside it.</summary>
[CollectionDefinition(Name, DisableParallelization = true)]
public sealed class MqttHoldCollection
{
    public const string Name = "MQTT holds";
}
