using System.Diagnostics.Metrics;
using BatchKit.Postgres.Tests.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Npgsql;

namespace BatchKit.Postgres.Tests;

/// <summary>What the callback is told of the server, and failing fast.</summary>
public sealed class ConnectTests(PostgresFixture postgres)
{
    private readonly List<ConnectionChange> _changes = [];

    [Fact]
    public async Task The_callback_of_a_transport_hears_of_each_change_once_and_in_order_and_may_throw()
    {
        await using var place = await SendingPlace.MakeOverProxyAsync(postgres, options => options.ConnectionChanged = Add, "Timeout=2");
        await place.RetrySendAsync(1, "one");
        await place.RetrySendAsync(2, "two");

        place.Proxy!.Stall();
        place.Proxy.ResetAll();
        await place.FailSendAsync(3, "three");
        place.Proxy.Resume();
        await place.RetrySendAsync(3, "three");

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], States);
        Assert.All(_changes, change => Assert.Equal(("transport", $"PostgreSQL at 127.0.0.1:{place.Proxy.Port}"), (change.Purpose, change.Target)));
        Assert.NotNull(_changes[1].Reason);
    }

    [Fact]
    public async Task The_callback_of_a_receiver_hears_of_each_change_once_and_in_order()
    {
        var server = await postgres.GetAsync();
        await using var schema = await postgres.NewSchemaAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port, Timeout = 2 });
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "tasks", PollInterval = TimeSpan.FromMilliseconds(50), ConnectionChanged = Add };
        await using var receiver = new PostgresQueueReceiver(dataSource, options, new KeepingHandler());
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();

        proxy.Stall();
        proxy.ResetAll();
        await Until.TrueAsync(() => States.Count >= 2);
        proxy.Resume();
        await Until.TrueAsync(() => States.Count >= 3);

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], States.Take(3));
    }

    [Fact]
    public async Task The_instruments_show_each_connection_its_loss_and_its_return()
    {
        var server = await postgres.GetAsync();
        await using var schema = await postgres.NewSchemaAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port, Timeout = 2 });
        var builder = Host.CreateApplicationBuilder();
        builder.Services.AddSingleton(dataSource);
        builder.Services.AddBatchKit().UsePostgres(options => options.Schema = schema.Name);
        builder.Services.AddPostgresQueueReceiver("tasks", _ => new KeepingHandler(), options => (options.Schema, options.PollInterval) = (schema.Name, TimeSpan.FromMilliseconds(50)));
        using var host = builder.Build();
        using var readings = new ConnectionReadings(host.Services.GetRequiredService<IMeterFactory>());
        await host.StartAsync().WithinDeadline();
        Assert.Equal(("Open", "Closed"), (readings.StateOf("receiver"), readings.StateOf("transport")));

        await readings.AssertOutageAsync(() =>
        {
            proxy.Stall();
            proxy.ResetAll();
        }, proxy.Resume, $"PostgreSQL at 127.0.0.1:{proxy.Port}", "postgresql", down: ["receiver"], open: ["receiver"]);
        await host.StopAsync().WithinDeadline();
        Assert.Equal("Closed", readings.StateOf("receiver"));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_host_that_fails_fast_does_not_start_without_its_server(bool receives)
    {
        var port = FreePort.Take(1)[0];
        await using var dataSource = NpgsqlDataSource.Create($"Host=127.0.0.1;Port={port};Username=someone;Timeout=2");
        var builder = Host.CreateApplicationBuilder();
        builder.Services.AddSingleton(dataSource);
        if (receives)
            builder.Services.AddPostgresQueueReceiver("tasks", _ => new KeepingHandler(), options => options.FailFast = true);
        else
            builder.Services.AddBatchKit().UsePostgres(options => options.FailFast = true);
        using var host = builder.Build();

        var failed = await Assert.ThrowsAsync<IOException>(() => host.StartAsync().WithinDeadline());

        Assert.Contains(port.ToString(System.Globalization.CultureInfo.InvariantCulture), failed.Message, StringComparison.Ordinal);
    }

    private IReadOnlyList<BrokerConnectionState> States
    {
        get
        {
            lock (_changes)
                return [.. _changes.Select(static change => change.State)];
        }
    }

    private void Add(ConnectionChange change)
    {
        lock (_changes)
            _changes.Add(change);
        throw new IOException("The callback is broken.");
    }
}
