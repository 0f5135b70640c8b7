using System.Net;
using BatchKit.Postgres;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.IntegrationTests;

/// <summary>A host that is stopped, by Ctrl-C for example, while its start waits for a server that accepts connections and says nothing.</summary>
public sealed class StoppedStartTests
{
    public static TheoryData<string, Action<BatchKitBuilder, int>> Adapters => new()
    {
        { "RabbitMQ", static (builder, port) => builder.UseRabbitMq(options => options.Hosts = [$"127.0.0.1:{port}"]).ReceiveFromRabbitMq(Next) },
        { "RabbitMQ, which must be there", static (builder, port) => builder.UseRabbitMq(options => (options.Hosts, options.FailFast) = ([$"127.0.0.1:{port}"], true)) },
        { "MassTransit", static (builder, port) => builder.UseMassTransit(options => options.RabbitMq = new() { Hosts = [$"127.0.0.1:{port}"] }).ReceiveFromMassTransit(Next) },
        { "MQTT", static (builder, port) => builder.UseMqtt(options => (options.Server, options.EnvelopePrefix) = (new Uri($"mqtt://127.0.0.1:{port}"), "game")).ReceiveFromMqtt(Next) },
        { "PostgreSQL", static (builder, port) => WithDatabase(builder, port).UsePostgres().ReceiveFromPostgres("tasks", Next) },
        { "PostgreSQL, which must be there", static (builder, port) => WithDatabase(builder, port).UsePostgres(static options => options.FailFast = true) },
        { "PostgreSQL: outbox", static (builder, port) => WithDatabase(builder, port).UsePostgresOutbox(Next) },
    };

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task A_stop_while_the_start_waits_for_a_silent_server_is_no_error(string adapter, Action<BatchKitBuilder, int> use)
    {
        using var server = new SilentListener(new IPEndPoint(IPAddress.Loopback, 0), accepts: true);
        using var logs = new LogCollector();
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Logging.AddProvider(logs);
        use(builder.Services.AddBatchKit(adapter, static options => options.Node = 1), server.EndPoint.Port);
        using var host = builder.Build();

        var running = host.RunAsync(TestContext.Current.CancellationToken);
        await server.AcceptAsync().WithinDeadline();
        host.Services.GetRequiredService<IHostApplicationLifetime>().StopApplication();
        await running.WithinDeadline();

        Assert.DoesNotContain(logs.Entries, static entry => entry.Level >= LogLevel.Error);
    }

    private static BatchKitBuilder WithDatabase(BatchKitBuilder builder, int port)
    {
        builder.Services.AddSingleton(NpgsqlDataSource.Create($"Host=127.0.0.1;Port={port};Username=someone"));
        return builder;
    }

    private static CollectingTransport Next(IServiceProvider services) => new();
}
