using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What goes on, and ends in time, although calls of the client never end.</summary>
public sealed class HangingClientTests(RabbitMqFixture fixture)
{
    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public async Task Output_for_groups_goes_on_although_a_lost_connections_channel_never_ends()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var client = new HangingClient(server, proxy.Port);
        var transport = new RabbitMqTransport(Options(client), _clock);
        await SendAsync(transport).WithinDeadline();

        client.HangEnds();
        proxy.ResetAll();

        await Until.TrueAsync(() => TrySendAsync(transport));
        await SendAsync(transport).WithinDeadline();
        await EndsInTimeAsync(transport.DisposeAsync().AsTask());
    }

    [Theory]
    [InlineData("is cancelled")]
    [InlineData("is late")]
    public async Task Output_for_groups_goes_on_although_a_send_asked_for_a_channel_that_never_opens(string send)
    {
        var server = await fixture.GetAsync();
        var client = new HangingClient(server, server.Port);
        var transport = new RabbitMqTransport(Options(client), _clock);
        Assert.Null(await transport.FindFaultAsync(CancellationToken.None));
        using var cancellation = new CancellationTokenSource();

        var asked = client.HangOpens();
        var sending = SendAsync(transport, cancellation.Token);
        await asked.WithinDeadline();
        if (send == "is cancelled")
            await cancellation.CancelAsync();
        else
            await EndsInTimeAsync(sending);
        var failure = await Record.ExceptionAsync(() => sending.WithinDeadline());

        Assert.Equal(send == "is cancelled", failure is OperationCanceledException);
        Assert.Equal(send == "is late", failure is IOException);
        await SendAsync(transport).WithinDeadline();
        await EndsInTimeAsync(transport.DisposeAsync().AsTask());
    }

    [Fact]
    public async Task A_transport_is_disposed_of_although_a_channel_never_ends()
    {
        var server = await fixture.GetAsync();
        var client = new HangingClient(server, server.Port);
        var transport = new RabbitMqTransport(Options(client), _clock);
        await SendAsync(transport).WithinDeadline();

        client.HangEnds();

        await EndsInTimeAsync(transport.DisposeAsync().AsTask());
    }

    [Fact]
    public async Task Questions_are_answered_although_their_channels_never_end()
    {
        var server = await fixture.GetAsync();
        var client = new HangingClient(server, server.Port);
        var options = Options(client);
        await using var connection = await client.Factory.CreateConnectionAsync("asker");

        client.HangEnds();
        var exchange = RabbitMqTopology.IsExchangeMissingAsync(connection, options.Prefix, _clock, CancellationToken.None);
        var queue = new RabbitMqTopology(options).CheckAsync(connection, node: 1, takesAll: true, _clock, CancellationToken.None);
        await EndsInTimeAsync(Task.WhenAll(exchange, queue));

        Assert.True(await exchange);
        Assert.Null(await queue);
    }

    [Theory]
    [InlineData("a send that fails fast")]
    [InlineData("a health check")]
    public async Task A_transport_is_disposed_of_although_a_silent_broker_does_not_answer(string who)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        proxy.Stall();
        var transport = new RabbitMqTransport(
            RabbitMqSome.Options(server, proxy.Port, static options => (options.FailFast, options.ConnectTimeout) = (true, TimeSpan.FromMinutes(5))));
        Task connecting = who == "a health check"
            ? transport.FindFaultAsync(CancellationToken.None)
            : Assert.ThrowsAsync<IOException>(() => SendAsync(transport));
        await Until.TrueAsync(() => proxy.AcceptedConnections == 1);

        await transport.DisposeAsync().WithinDeadline();
        await connecting.WithinDeadline();
    }

    [Fact]
    public async Task A_check_that_never_ends_is_a_fault_and_hides_no_lost_connection()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var client = new HangingClient(server, proxy.Port);
        var options = new RabbitMqOptions { ConnectionFactory = client.Factory, Prefix = Some.Name("test"), ConnectTimeout = TimeSpan.FromSeconds(20) };
        var arrived = new CollectingTransport();
        await using var receiver = new RabbitMqReceiver(options, RabbitMqEnds.Node, new BatchReceiver(arrived), _clock);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(server, sending => sending.Prefix = options.Prefix));

        var asked = client.HangOpens();
        await EndsInTimeAsync(asked);
        await PassesUntilAsync(() => receiver.Fault?.Contains(nameof(RabbitMqOptions.ConnectTimeout), StringComparison.Ordinal) == true);
        proxy.ResetAll();
        await RabbitMqEnds.SendLinesAsync(transport, count: 1);

        await PassesUntilAsync(() => arrived.MessageCount == 1 && receiver.Fault is null);
    }

    [Fact]
    public async Task A_receiver_connects_again_although_the_channel_that_binds_its_groups_never_opens()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var client = new HangingClient(server, proxy.Port);
        var options = Options(client);
        var arrived = new CollectingTransport();
        await using var receiver = new RabbitMqReceiver(options, RabbitMqEnds.Node, new BatchReceiver(arrived), _clock);
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(server, sending => sending.Prefix = options.Prefix));

        // Its own is the first, and the one for the lease of its number the second.
        var asked = client.HangCall(nameof(IConnection.CreateChannelAsync), call: 3);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await asked.WithinDeadline();
        proxy.ResetAll();
        await RabbitMqEnds.SendLinesAsync(transport, count: 1);

        await PassesUntilAsync(() => arrived.MessageCount == 1 && receiver.Fault is null);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_receiver_connects_again_when_it_is_never_told_that_it_consumes(bool declares)
    {
        var server = await fixture.GetAsync();
        var client = new HangingClient(server, server.Port);
        var options = Options(client);
        await using var transport = new RabbitMqTransport(RabbitMqSome.Options(server, sending => sending.Prefix = options.Prefix));
        await using (await RabbitMqEnds.StartAsync(options, new CollectingTransport()))
            options.DeclareTopology = declares;
        var arrived = new CollectingTransport();
        await using var receiver = new RabbitMqReceiver(options, RabbitMqEnds.Node, new BatchReceiver(arrived), _clock);

        // One that declares consumes the lease of its number first.
        var asked = client.HangCall(nameof(IChannel.BasicConsumeAsync), call: declares ? 2 : 1);
        var starting = receiver.StartAsync(CancellationToken.None);
        await asked.WithinDeadline();
        await EndsInTimeAsync(starting);
        await PassesUntilAsync(() => receiver.Fault is null);
        await RabbitMqEnds.SendLinesAsync(transport, count: 1);

        await PassesUntilAsync(() => arrived.MessageCount == 1);
    }

    [Fact]
    public async Task A_transport_is_disposed_of_although_the_applications_factory_hangs_at_the_end_of_an_attempt()
    {
        var (asked, released) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), new TaskCompletionSource());
        var transport = new RabbitMqTransport(new RabbitMqOptions { ConnectionFactory = HangingClient.CreateStuckFactory(asked, released.Task), FailFast = true }, _clock);
        await Assert.ThrowsAsync<IOException>(() => SendAsync(transport));
        await asked.Task.WithinDeadline();

        await EndsInTimeAsync(transport.DisposeAsync().AsTask());
        released.SetResult();
    }

    [Fact]
    public async Task A_send_fails_in_time_although_the_applications_factory_hangs_at_the_end_of_an_attempt()
    {
        var (asked, released) = (new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously), new TaskCompletionSource());
        var options = new RabbitMqOptions { ConnectionFactory = HangingClient.CreateStuckFactory(asked, released.Task) };
        var transport = new RabbitMqTransport(options, _clock);

        var sending = SendAsync(transport);
        await asked.Task.WithinDeadline();
        await Task.Run(() => _clock.Advance(options.ConnectTimeout)).WithinDeadline();
        var failure = await Assert.ThrowsAsync<IOException>(() => sending.WithinDeadline());

        Assert.Contains(nameof(RabbitMqOptions.ConnectTimeout), failure.Message, StringComparison.Ordinal);
        await EndsInTimeAsync(transport.DisposeAsync().AsTask());
        released.SetResult();
    }

    private static RabbitMqOptions Options(HangingClient client) =>
        new() { ConnectionFactory = client.Factory, Prefix = Some.Name("test"), RouteGroupsByMembers = true, UnroutableGrace = TimeSpan.Zero };

    // Whatever becomes of it.
    private Task EndsInTimeAsync(Task task) => PassesUntilAsync(() => task.IsCompleted);

    private Task PassesUntilAsync(Func<bool> isSo) => Until.TrueAsync(() =>
    {
        _clock.Advance(TimeSpan.FromSeconds(1));
        return isSo();
    });

    private static Task SendAsync(RabbitMqTransport transport, CancellationToken cancellationToken = default) =>
        transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, cancellationToken).AsTask();

    // False until the transport has noticed that its connection is lost.
    private static async Task<bool> TrySendAsync(RabbitMqTransport transport)
    {
        try
        {
            await SendAsync(transport);
            return true;
        }
        catch (Exception exception) when (exception is IOException or BatchSendException)
        {
            return false;
        }
    }
}
