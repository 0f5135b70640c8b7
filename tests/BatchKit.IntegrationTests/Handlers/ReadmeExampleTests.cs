using BatchKit.IntegrationTests.MassTransit;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Handlers;

/// <summary>The receivers of the readmes start in a host without a route, and receive.</summary>
public sealed class ReadmeExampleTests(PostgresFixture postgres, MosquittoFixture mosquitto, RabbitMqFixture rabbitMq)
{
    [Fact]
    public async Task The_queue_handler_of_the_readme_starts()
    {
        await using var schema = await postgres.NewSchemaAsync();

        await AssertReceivesAsync(services =>
        {
            ReadmeExamples.AddPostgres(services, schema.DataSource.ConnectionString);
            services.AddSingleton(schema.DataSource);
            services.Configure<PostgresQueueReceiverOptions>("npc", options => options.Schema = schema.Name);
        });
    }

    [Fact]
    public async Task The_MQTT_handler_of_the_readme_starts()
    {
        var server = await mosquitto.GetAsync();

        await AssertReceivesAsync(services =>
        {
            ReadmeExamples.AddMqtt(services);
            services.Configure<MqttOptions>(options => MqttSome.Configure(options, server.Address));
        });
    }

    [Fact]
    public async Task The_RabbitMQ_handler_of_the_readme_starts()
    {
        var server = await rabbitMq.GetAsync();

        await AssertReceivesAsync(services =>
        {
            ReadmeExamples.AddRabbitMq(services);
            services.Configure<RabbitMqOptions>(options => RabbitMqSome.Configure(options, server, server.Port, Some.Name("readme")));
        });
    }

    [Fact]
    public async Task The_MassTransit_handler_of_the_readme_starts()
    {
        var server = await rabbitMq.GetAsync();

        await AssertReceivesAsync(services =>
        {
            ReadmeExamples.AddMassTransit(services);
            services.Configure(MassTransitSome.Settings(server, Some.Name("readme")));
        });
    }

    [Fact]
    public void A_second_receiver_of_a_buffer_is_refused_with_what_to_do_instead()
    {
        var builder = Host.CreateEmptyApplicationBuilder(settings: null).Services.AddBatchKit();
        builder.ReceiveFromMqtt<Sensors>().ReceiveFromRabbitMq<Sensors>().ReceiveFromMassTransit<Sensors>().ReceiveFromPostgres<Sensors>("npc");

        foreach (Action again in new Action[] { () => builder.ReceiveFromMqtt<Sensors>(), () => builder.ReceiveFromRabbitMq<Sensors>(), () => builder.ReceiveFromMassTransit<Sensors>(), () => builder.ReceiveFromPostgres<Sensors>("npc") })
            Assert.Contains("already", Assert.Throws<InvalidOperationException>(again).Message, StringComparison.Ordinal);
    }

    private static async Task AssertReceivesAsync(Action<IServiceCollection> add)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging();
        add(application.Services);
        using var host = application.Build();

        await host.StartAsync().WithinDeadline();

        await Until.TrueAsync(async () => (await host.Services.GetRequiredService<HealthCheckService>().CheckHealthAsync()).Status == HealthStatus.Healthy);
        await host.StopAsync().WithinDeadline();
    }
}
