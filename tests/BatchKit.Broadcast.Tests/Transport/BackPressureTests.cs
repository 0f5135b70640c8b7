using System.Collections.Concurrent;
using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>Who writes much can wait for the clients that read, and is told of those that don't.</summary>
public sealed class BackPressureTests
{
    private const int QueueBytes = 8192;
    private const int MessageBytes = 1200;

    // Two of them are longer than a client that takes nothing is waited for.
    private static readonly TimeSpan Moment = ReaderWait.Patience * 0.9;

    private readonly ManualTimeProvider _clock = new();
    private readonly ConcurrentQueue<(OutputHandle Client, bool IsSlow)> _changes = new();

    [Fact]
    public async Task Where_nothing_waits_and_where_no_one_is_there_is_no_wait()
    {
        await using var transport = Create();
        var client = new FakeClient(transport, timeProvider: _clock).Join("hall");
        await transport.SendAsync(Deliveries.ToGroup("hall", "hello"));

        foreach (var destination in new[] { client.Handle, OutputHandle.Named("hall"), OutputHandle.Named("nobody"), Some.Connection(node: 7) })
            Assert.True(transport.WaitForReadersAsync(destination).IsCompletedSuccessfully);
    }

    [Fact]
    public async Task A_client_that_reads_slowly_is_waited_for_until_half_of_its_queue_is_free()
    {
        await using var transport = Create();
        var slow = new FakeClient(transport, timeProvider: _clock).Join("hall");
        await FillAsync(transport, slow);

        var waiting = transport.WaitForReadersAsync(OutputHandle.Named("hall"));
        _clock.Advance(Moment);
        await ReadOneAsync(slow);
        _clock.Advance(Moment);
        var hasWaited = !waiting.IsCompleted;
        await ReadOneAsync(slow);
        await waiting.WithinDeadline();

        Assert.True(hasWaited);
        Assert.InRange(slow.Connection.Output.HeldBytes, 1, QueueBytes / 2);
    }

    [Fact]
    public async Task A_client_that_takes_nothing_is_waited_for_no_longer_than_a_second()
    {
        await using var transport = Create();
        var stuck = new FakeClient(transport, timeProvider: _clock).Join("hall");
        await FillAsync(transport, stuck);

        var waiting = transport.WaitForReadersAsync(OutputHandle.Named("hall"));
        _clock.Advance(ReaderWait.Patience - TimeSpan.FromMilliseconds(1));
        var hasWaited = !waiting.IsCompleted;
        _clock.Advance(TimeSpan.FromMilliseconds(1));
        await waiting.WithinDeadline();

        Assert.True(hasWaited);
        Assert.True(transport.WaitForReadersAsync(stuck.Handle).IsCompletedSuccessfully);
    }

    [Fact]
    public async Task A_client_that_acknowledges_is_waited_for_though_no_write_ends()
    {
        await using var transport = Create();
        var slow = new FakeClient(transport, timeProvider: _clock);
        await FillAsync(transport, slow);

        var waiting = transport.WaitForReadersAsync(slow.Handle);
        for (var moment = 1; moment <= 5; moment++)
        {
            slow.Wire.AcknowledgedBytes = moment;
            _clock.Advance(Moment);
        }

        var hasWaited = !waiting.IsCompleted;
        await waiting.WhileAdvancing(() => _clock.Advance(ReaderWait.Patience / 10));
        Assert.True(hasWaited);
        Assert.InRange(slow.Connection.Output.StalledFor, ReaderWait.Patience, TimeSpan.MaxValue);
    }

    [Fact]
    public async Task A_client_that_acknowledges_a_byte_now_and_then_is_not_waited_for_for_ever()
    {
        await using var transport = Create(static options => options.SlowConsumerTimeout = TimeSpan.FromSeconds(30));
        var trickling = new FakeClient(transport, timeProvider: _clock).Join("hall");
        await FillAsync(transport, trickling);

        var waiting = transport.WaitForReadersAsync(OutputHandle.Named("hall"));
        for (var moment = 1; moment <= 60; moment++)
        {
            trickling.Wire.AcknowledgedBytes = moment;
            _clock.Advance(Moment);
        }

        await waiting.WithinDeadline();
        Assert.False(trickling.Connection.Closing.IsCompleted);
        Assert.InRange(trickling.Connection.Output.StalledFor, TimeSpan.Zero, ReaderWait.Patience);
    }

    [Fact]
    public async Task A_wait_ends_with_its_client_and_with_its_token()
    {
        await using var transport = Create();
        var (leaving, staying) = (new FakeClient(transport, timeProvider: _clock), new FakeClient(transport, timeProvider: _clock));
        await FillAsync(transport, leaving);
        await FillAsync(transport, staying);
        using var stop = new CancellationTokenSource();

        var forLeaving = transport.WaitForReadersAsync(leaving.Handle);
        var forStaying = transport.WaitForReadersAsync(staying.Handle, stop.Token);
        leaving.Connection.Abort();
        await stop.CancelAsync();

        await forLeaving.WithinDeadline();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forStaying.WithinDeadline());
    }

    [Fact]
    public async Task Who_waits_after_each_write_loses_no_client_that_reads_beside_one_that_is_stuck()
    {
        const int Writes = 2000;
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxQueuedBytes = 256 * 1024, SlowConsumer = SlowConsumerPolicy.DropNewest });
        var (client, server) = await SocketPair.ConnectAsync(bufferBytes: 4096);
        using var reader = client;
        await using var reading = transport.Attach(new NetworkStream(server, ownsSocket: true));
        var stuck = new FakeClient(transport).Join("hall");
        stuck.Wire.Limit(0);
        await transport.SendAsync(Deliveries.To(reading.Handle, Deliveries.Control(ControlMessage.JoinGroup("hall"))));
        var text = new string('x', 2048);
        var received = Task.Run(() => ReadSlowlyAsync(client, Writes * text.Length));

        for (var write = 0; write < Writes; write++)
        {
            await transport.SendAsync(Deliveries.ToGroup("hall", text));
            await transport.WaitForReadersAsync(OutputHandle.Named("hall")).WithinDeadline();
        }

        Assert.Equal(Writes * text.Length, await received.WithinDeadline());
        Assert.InRange(stuck.Connection.Output.HeldBytes, 1, 256 * 1024);
    }

    [Fact]
    public async Task One_slow_client_of_a_thousand_is_told_within_a_second_and_when_it_keeps_up_again()
    {
        await using var transport = Create(options => options.SlowClientChanged = client => _changes.Enqueue((client.Handle, client.IsSlow)));
        var clients = Enumerable.Range(0, 1000).Select(_ => new FakeClient(transport, timeProvider: _clock).Join("hall")).ToArray();
        var slow = clients[500];
        slow.Wire.Limit(0);

        await transport.SendAsync(Deliveries.ToGroup("hall", "hello"));
        _clock.Advance(TimeSpan.FromSeconds(1));

        Assert.Equal([(slow.Handle, true)], _changes);
        Assert.Equal((1, true), (transport.GetStatistics().SlowClients, slow.Connection.IsSlow));

        slow.Wire.Open();
        await Until.TrueAsync(() => slow.Text == "hello");
        await Until.TrueAsync(() => slow.Connection.Output.StalledFor == TimeSpan.Zero);
        _clock.Advance(TimeSpan.FromSeconds(1));
        Assert.Equal([(slow.Handle, true), (slow.Handle, false)], _changes);
        Assert.Equal(0, transport.GetStatistics().SlowClients);
    }

    [Fact]
    public async Task A_client_with_more_than_half_of_its_queue_in_use_is_slow_although_it_reads()
    {
        await using var transport = Create(static options => options.SlowClientChanged = static _ => { });
        var client = new FakeClient(transport, timeProvider: _clock);
        await FillAsync(transport, client);

        _clock.Advance(TimeSpan.FromSeconds(0.4));
        await ReadOneAsync(client);
        _clock.Advance(TimeSpan.FromSeconds(0.1));

        Assert.True(client.Connection.IsSlow);
    }

    [Fact]
    public async Task A_callback_that_throws_is_counted_and_hurts_no_one()
    {
        await using var transport = Create(static options => options.SlowClientChanged = static _ => throw new InvalidOperationException("the callback's own"));
        var clients = new[] { new FakeClient(transport, timeProvider: _clock), new FakeClient(transport, timeProvider: _clock) };
        foreach (var client in clients)
            await FillAsync(transport, client);

        _clock.Advance(TimeSpan.FromSeconds(1));

        Assert.Equal(2, transport.GetStatistics().SlowClients);
        Assert.Equal(2, transport.LoggerFaults.Count);
    }

    [Fact]
    public async Task A_callback_that_hangs_keeps_the_transport_from_no_end()
    {
        using var released = new ManualResetEventSlim();
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var options = new BroadcastOptions
        {
            MaxQueuedBytes = QueueBytes,
            CloseTimeout = TimeSpan.FromSeconds(1),
            SlowClientChanged = _ =>
            {
                entered.TrySetResult();
                released.Wait(Deadline.Time);
            },
        };
        var transport = new BroadcastTransport(options);
        var client = new FakeClient(transport);
        await FillAsync(transport, client);
        await entered.Task.WithinDeadline();

        await transport.DisposeAsync().AsTask().WithinDeadline();

        await client.Connection.Output.Ended.WithinDeadline();
        released.Set();
    }

    private BroadcastTransport Create(Action<BroadcastOptions>? configure = null)
    {
        var options = new BroadcastOptions { MaxQueuedBytes = QueueBytes, SlowConsumerTimeout = TimeSpan.FromMinutes(5) };
        configure?.Invoke(options);
        return new BroadcastTransport(options, timeProvider: _clock);
    }

    /// <summary>Three messages wait, which are written one by one, because two don't fit one write.</summary>
    private static async Task FillAsync(BroadcastTransport transport, FakeClient client)
    {
        client.Wire.Limit(0);
        for (var message = 0; message < 3; message++)
            await transport.SendAsync(Deliveries.To(client.Handle, new string('x', MessageBytes)));
    }

    private static async Task ReadOneAsync(FakeClient client)
    {
        var waiting = client.Connection.Output.Waiting.Messages;
        client.Wire.Allow(MessageBytes);
        await Until.TrueAsync(() => client.Connection.Output.Waiting.Messages < waiting);
    }

    private static async Task<long> ReadSlowlyAsync(Socket socket, long expected)
    {
        var (received, buffer) = (0L, new byte[16 * 1024]);
        while (received < expected && await socket.ReceiveAsync(buffer) is > 0 and var bytes)
            received += bytes;
        return received;
    }
}
