using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>What a host that accepts connections and answers nothing does to those who know another.</summary>
public sealed class SilentHostTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_first_host_that_takes_connections_and_answers_nothing_holds_up_no_send_for_ever()
    {
        var server = await fixture.GetAsync();
        await using var silent = TcpProxy.Start(server.Host, server.Port);
        silent.Stall();

        await AssertReachesTheSecondAsync(server, silent.Port);
    }

    [Fact]
    public async Task A_first_host_that_is_gone_and_refuses_nothing_holds_up_no_send_for_ever()
    {
        var server = await fixture.GetAsync();
        // No one accepts: once its queue is full, further attempts to connect get no answer.
        using var gone = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        gone.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        gone.Listen(1);
        using var queue = new QueueOfConnections(gone.LocalEndPoint!, count: 8);
        await queue.WaitUntilFullAsync();

        await AssertReachesTheSecondAsync(server, ((IPEndPoint)gone.LocalEndPoint!).Port);
    }

    [Fact]
    public async Task Health_names_all_hosts()
    {
        await using var dataSource = NpgsqlDataSource.Create("Host=127.0.0.1:1,127.0.0.1:2;Username=postgres");
        await using var transport = new PostgresQueueTransport(dataSource);

        var fault = await transport.FindFaultAsync(TestContext.Current.CancellationToken);

        Assert.StartsWith("PostgreSQL at 127.0.0.1:1,127.0.0.1:2 can't be used: No connection to a host that takes writes could be opened.", fault, StringComparison.Ordinal);
    }

    // Each attempt of the transport ends long before Npgsql gives the first host up. The schema is there: on a busy machine an attempt is too short to create it.
    private static async Task AssertReachesTheSecondAsync(PostgresServer server, int firstPort)
    {
        await using var schema = TestSchema.On(server);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        await using var dataSource = NpgsqlDataSource.Create($"{server.ConnectionString};Host=127.0.0.1:{firstPort},{server.Host}:{server.Port};Timeout=3");
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name, CommandTimeout = TimeSpan.FromSeconds(1) });
        await using var output = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(50) });

        output.Write(OutputHandle.Named("tasks"), "one"u8);
        await output.FlushAsync().WithinDeadline();

        Assert.Equal(1, output.GetStatistics().AcknowledgedMessages);
        Assert.NotEqual(0, output.GetStatistics().FailedSends);
    }
}

/// <summary>Connections that wait to be accepted.</summary>
internal sealed class QueueOfConnections : IDisposable
{
    private readonly List<(Socket Socket, Task Connecting)> _clients = [];

    public QueueOfConnections(EndPoint listener, int count)
    {
        for (var client = 0; client < count; client++)
        {
            var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
            _clients.Add((socket, ObserveAsync(socket.ConnectAsync(listener))));
        }
    }

    /// <summary>Waits until the queue has taken some.</summary>
    public Task WaitUntilFullAsync() => Until.TrueAsync(() => _clients.Count(static client => client.Socket.Connected) >= 2);

    public void Dispose() => _clients.ForEach(static client => client.Socket.Dispose());

    private static async Task ObserveAsync(Task connecting) => await connecting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
}
