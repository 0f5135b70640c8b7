using System.Diagnostics;
using System.IO.Compression;
using System.Runtime;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Clients;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.Telnet;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>What clients that never read cost the process, read from its resident memory.</summary>
[Collection(HoldCollection.Name)]
public sealed class HostileMemoryTests(ITestOutputHelper report)
{
    private const int Kilobyte = 1024;
    private const int Megabyte = 1024 * Kilobyte;
    private const int Pings = 3_000_000;
    private const string ShortMessage = "12 bytes ...";

    // What pools keep after their users have left.
    private const int KeptBytes = 8 * Megabyte;

    [Fact]
    public void What_a_queue_counts_is_the_memory_that_it_holds()
    {
        var segments = new SegmentQueue();
        var lengths = new[] { 2, 12, 100, 700, 3000 };
        var before = Compact();

        for (var index = 0; index < 100_000; index++)
            segments.Add(new OutputRun(new byte[lengths[index % lengths.Length]], messages: 1).ToSegment(taken: 0, nextWire: null, int.MaxValue), isStarted: false);
        var heldBytes = Compact().Heap - before.Heap;

        report.WriteLine($"{segments.HeldBytes:N0} bytes counted, {heldBytes:N0} held.");
        Assert.InRange(segments.HeldBytes, 0.95 * heldBytes, 1.05 * heldBytes);
        GC.KeepAlive(segments);
    }

    [Fact]
    public void Clients_whose_output_is_compressed_hold_no_window()
    {
        const int Clients = 200;
        new CompressingWire(new CountingWire(), CompressionLevel.Optimal).TryWrite(Some.RandomBytes(10_000, seed: 0));
        var before = Compact();

        var wires = Enumerable.Range(1, Clients).Select(number =>
        {
            var wire = new CompressingWire(new CountingWire(), CompressionLevel.Optimal);
            wire.TryWrite(Some.RandomBytes(10_000, number));
            return wire;
        }).ToArray();
        var bytes = (Compact().Resident - before.Resident) / Clients;

        report.WriteLine($"{bytes:N0} B a client.");
        Assert.InRange(bytes, long.MinValue, 64 * Kilobyte);
        GC.KeepAlive(wires);
    }

    [Fact]
    public Task One_client_that_pings_and_never_reads_stays_within_its_limit() =>
        CheckAsync(clients: 1, limitBytes: 16 * Megabyte, _ => ClientProtocol.WebSocket, isSmall: false, async (_, client, _) => await client.PingAsync(HostileClients.Of(Pings)));

    [Fact]
    public Task Clients_that_never_read_short_messages_stay_within_their_limits() =>
        CheckAsync(HostileClients.Of(50), limitBytes: 4 * Megabyte, _ => ClientProtocol.Telnet, isSmall: true, (server, _, connection) => FillAsync(server, connection));

    [Fact]
    public Task A_mixed_crowd_that_never_reads_stays_within_its_limits() =>
        CheckAsync(HostileClients.Of(2000), limitBytes: 256 * Kilobyte, number => (ClientProtocol)(number % 3), isSmall: true, async (server, client, connection) =>
        {
            if (connection.Protocol == ClientProtocol.WebSocket)
                await client.PingAsync(1000);
            await FillAsync(server, connection);
        });

    /// <summary>Lets each client do its worst, and checks what the process grows by, and that it gives that back within ten seconds of the clients' end.</summary>
    private async Task CheckAsync(
        int clients, int limitBytes, Func<int, ClientProtocol> protocolOf, bool isSmall, Func<HoldServer, DeafClient, ClientConnection, Task> attackAsync)
    {
        var options = new BroadcastOptions { MaxQueuedBytes = limitBytes, SlowConsumer = SlowConsumerPolicy.DropNewest, TextInputLimits = null };
        await using var server = await HoldServer.StartAsync(options);

        // Code and pools cost memory when they are first used, up to 12 MB. So as many clients do the same before: what each attack leaves behind would be left again.
        Leave(await AttackAsync(Enumerable.Range(clients + 1, clients)));
        await Until.TrueAsync(() => server.Transport.Connections.Places == 0);
        var before = Compact();

        var attackers = await AttackAsync(Enumerable.Range(1, clients));
        var during = Compact();
        var heldBytes = attackers.Sum(attacker => (long)attacker.Connection.Output.HeldBytes);
        Leave(attackers);
        var left = await WhenGivenBackAsync(before.Resident + KeptBytes);

        var sum = (long)clients * limitBytes;
        report.WriteLine($"{clients} clients of {limitBytes:N0} B: {heldBytes:N0} B counted, {during.Resident - before.Resident:N0} B resident, {left - before.Resident:N0} B left.");
        Assert.InRange(during.Resident - before.Resident, long.MinValue, sum * 3 / 2);
        Assert.InRange(left - before.Resident, long.MinValue, Math.Max(KeptBytes, sum / 10));

        async Task<List<(DeafClient Client, ClientConnection Connection)>> AttackAsync(IEnumerable<int> numbers)
        {
            var connected = new List<(DeafClient Client, ClientConnection Connection)>();
            foreach (var number in numbers)
            {
                connected.Add(await server.ConnectDeafAsync(number, protocolOf(number), isSmall));
                await attackAsync(server, connected[^1].Client, connected[^1].Connection);
            }

            return connected;
        }

        static void Leave(List<(DeafClient Client, ClientConnection Connection)> connected)
        {
            connected.ForEach(one => one.Client.Dispose());
            connected.ForEach(one => one.Connection.Abort());
        }
    }

    /// <summary>Sends one client output until its queue is full, mostly of short messages.</summary>
    private static async Task FillAsync(HoldServer server, ClientConnection connection)
    {
        var filler = new string('x', 10_000);
        while (connection.Output.HeldBytes == 0)
            await server.Transport.SendAsync(Deliveries.To(connection.Handle, filler));
        var dropped = server.Transport.Counters[DeliveryOutcome.DroppedNewest].Messages;
        while (server.Transport.Counters[DeliveryOutcome.DroppedNewest].Messages == dropped)
            await server.Transport.SendAsync(Deliveries.To(connection.Handle, ShortMessage));
    }

    private static async Task<long> WhenGivenBackAsync(long wantedBytes)
    {
        long left;
        var since = Stopwatch.GetTimestamp();
        while ((left = Compact().Resident) > wantedBytes && Stopwatch.GetElapsedTime(since) < TimeSpan.FromSeconds(10))
            await Task.Delay(TimeSpan.FromMilliseconds(100));
        return left;
    }

    private static (long Heap, long Resident) Compact()
    {
        GCSettings.LargeObjectHeapCompactionMode = GCLargeObjectHeapCompactionMode.CompactOnce;
        GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        GC.WaitForPendingFinalizers();
        GC.Collect(GC.MaxGeneration, GCCollectionMode.Aggressive, blocking: true, compacting: true);
        return (GC.GetTotalMemory(forceFullCollection: true), Environment.WorkingSet);
    }
}
