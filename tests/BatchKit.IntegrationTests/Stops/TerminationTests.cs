using System.Globalization;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.HostWorker;

namespace BatchKit.IntegrationTests.Stops;

/// <summary>A process is told to end (SIGTERM) while it writes 100,000 messages: the law of the counters holds, and all that was acknowledged arrives once and in order.</summary>
[Trait("Lane", "faults: processes are terminated one after another")]
public sealed class TerminationTests(RabbitMqFixture rabbitMq, MosquittoFixture mosquitto, NatsFixture nats, PostgresFixture postgres)
{
    /// <summary>How many processes are told to end over RabbitMQ: 3 unless this environment variable says otherwise. Over each other transport it is a third of them.</summary>
    private const string TerminationsVariable = "BATCHKIT_TEST_SIGTERMS";

    private const int Messages = 100_000;

    // Only a hang takes so long: the process shares both cores with others, and a writer that has not ended when the host's time is over would be refused.
    private static readonly TimeSpan StopLimit = TimeSpan.FromMinutes(1);

    private readonly SharedBrokers _brokers = new(rabbitMq, mosquitto, nats, postgres);

    /// <summary>How a process stops, by turns.</summary>
    private enum StopKind
    {
        /// <summary>The host stops the writer before the buffer: all lines are written, and all are sent.</summary>
        InTurn,

        /// <summary>The host stops both at the same time: lines are written until the buffer refuses one, and all that it accepted are sent.</summary>
        Concurrent,

        /// <summary>As in turn, but the drain's limit leaves no time: what is not sent by then is dropped and counted.</summary>
        CutShort,
    }

    public static TheoryData<string> Transports => SharedBrokers.Transports;

    [Theory]
    [MemberData(nameof(Transports))]
    public Task What_a_terminated_process_acknowledged_arrives_once_and_in_order_and_the_rest_is_counted(string transport) => _brokers.UseAsync(transport, async path =>
    {
        var arrived = new NumberedArrivals();
        var far = await PathHost.StartReceiverAsync(path, HostWorkerSettings.FarNode, arrived);
        var random = new Random(8);

        for (var round = 0; round < CountTerminations(transport); round++)
        {
            // The other transports begin with another kind, so that each kind runs even when each of them has one process.
            var kind = (StopKind)((round + SharedBrokers.All.IndexOf(transport)) % Enum.GetValues<StopKind>().Length);
            await TerminateAsync(path, arrived, kind, round, random.Next(1, Messages));
        }

        await PathHost.StopAsync(far);
        Assert.Empty(arrived.Gaps);
        Assert.Equal(0, arrived.Repeats);
    });

    private static int CountTerminations(string transport)
    {
        var all = int.TryParse(Environment.GetEnvironmentVariable(TerminationsVariable), CultureInfo.InvariantCulture, out var given) ? given : 3;
        return transport == BrokerPath.RabbitMq ? all : all / 3;
    }

    private static async Task TerminateAsync(BrokerPath path, NumberedArrivals arrived, StopKind kind, int round, int announced)
    {
        var settings = new HostWorkerSettings
        {
            Path = path,
            FirstConnection = 1 + (round * HostWorkerSettings.Connections),
            Group = Some.Name("group"),
            Messages = Messages,
            AnnouncedMessages = announced,
            DrainTimeout = kind == StopKind.CutShort ? TimeSpan.Zero : StopLimit,
            ShutdownTimeout = 2 * StopLimit,
            StopsConcurrently = kind == StopKind.Concurrent,
        };
        using var process = HostWorkerProcess.Run(settings);

        await process.WaitUntilWritingAsync();
        process.Terminate();
        var exitCode = await process.WaitForExitAsync(3 * StopLimit);

        Assert.True(exitCode == 0, process.Output);
        var (written, acknowledged) = (ReadWritten(process), process.ReadCount("acknowledged"));
        Assert.Equal(written.Sum(), process.ReadCount("accepted"));
        Assert.Equal(written.Sum(), acknowledged + process.ReadCount("failed") + process.ReadCount("dropped"));
        Assert.Equal(0, process.ReadCount("pending"));
        Assert.Equal(kind == StopKind.Concurrent && written.Sum() < Messages, process.Output.Contains(HostWorkerProcess.Refused, StringComparison.Ordinal));
        if (kind != StopKind.Concurrent)
            Assert.Equal(Messages, written.Sum());
        if (kind != StopKind.CutShort)
            Assert.Equal(written.Sum(), acknowledged);
        await AssertArrivedAsync(arrived, settings, written, acknowledged);
    }

    // What a send under way was cut off with may have arrived, although no one acknowledged it.
    private static async Task AssertArrivedAsync(NumberedArrivals arrived, HostWorkerSettings settings, long[] written, long acknowledged)
    {
        OutputHandle[] handles =
        [
            .. Enumerable.Range(0, HostWorkerSettings.Connections).Select(index => OutputHandle.Connection(HostWorkerSettings.FarNode, settings.FirstConnection + index)),
            OutputHandle.Named(settings.Group),
        ];
        await Until.ReachedAsync(() => Task.FromResult(handles.Sum(arrived.NextOf)), acknowledged);
        for (var index = 0; index < handles.Length; index++)
            Assert.InRange(arrived.NextOf(handles[index]), 0, written[index]);
    }

    private static long[] ReadWritten(HostWorkerProcess process) => [.. Enumerable.Range(0, HostWorkerSettings.Connections + 1).Select(index => process.ReadCount($"written{index}"))];
}
