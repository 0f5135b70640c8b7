using BatchKit.IntegrationTests.MassTransit;
using BatchKit.IntegrationTests.Mqtt;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Pages;

/// <summary>The code of readmes and docs starts, and does what the text beside it says.</summary>
public sealed class PageExampleTests(PostgresFixture postgres, MosquittoFixture mosquitto, RabbitMqFixture rabbitMq)
{
    [Fact]
    public async Task The_page_on_trust_sets_a_key()
    {
        var services = new ServiceCollection();
        PageExamples.AddSigned(services, Configure("FrameKey", Convert.ToBase64String(new byte[32])));
        await using var provider = services.BuildServiceProvider();

        Assert.Single(provider.GetRequiredService<IOptions<OutputBufferOptions>>().Value.FrameKeys);
    }

    [Fact]
    [Trait("Lane", "night: programs are started")]
    public async Task The_RabbitMQ_readmes_game_and_gateway_start()
    {
        var server = await rabbitMq.GetAsync();
        var prefix = Some.Name("page");

        foreach (Action<IServiceCollection> add in new[] { PageExamples.AddRabbitMqGame, PageExamples.AddRabbitMqGateway, AddFromSection })
        {
            await AssertHealthyAsync(services =>
            {
                add(services);
                services.Configure<RabbitMqOptions>(options => RabbitMqSome.Configure(options, server, server.Port, prefix));
            });
        }

        static void AddFromSection(IServiceCollection services) => PageExamples.AddSection(services, Configure("BatchKit:Node", "3"), []);
    }

    [Fact]
    public async Task The_MassTransit_readmes_game_and_gateway_start()
    {
        var server = await rabbitMq.GetAsync();
        var prefix = Some.Name("page");

        foreach (Action<IServiceCollection> add in new[] { PageExamples.AddMassTransitGame, PageExamples.AddMassTransitGateway })
        {
            await AssertHealthyAsync(services =>
            {
                add(services);
                services.Configure(MassTransitSome.Settings(server, prefix));
            });
        }
    }

    [Fact]
    public async Task The_MassTransit_readmes_processes_without_a_broker_start()
    {
        await AssertHealthyAsync(PageExamples.AddMassTransitInMemory);
        await AssertHealthyAsync(PageExamples.AddOwnMassTransitBus);
    }

    [Fact]
    public async Task The_MQTT_readmes_messages_are_published()
    {
        var server = await mosquitto.GetAsync();

        await AssertHealthyAsync(
            services =>
            {
                PageExamples.AddMqtt(services);
                services.Configure<MqttOptions>(options => MqttSome.Configure(options, server.Address));
            },
            async host =>
            {
                var output = host.Services.GetRequiredService<IOutputBuffer>();
                PageExamples.Publish(output, [new Change("1", "light", "on"), new Change("2", "light", "off")]);
                await output.FlushAsync(TestContext.Current.CancellationToken).WithinDeadline();
            });
    }

    [Fact]
    public async Task The_PostgreSQL_readmes_tasks_are_stored()
    {
        await using var schema = await postgres.NewSchemaAsync();

        await AssertHealthyAsync(
            services =>
            {
                PageExamples.AddPostgres(services, schema.DataSource.ConnectionString);
                services.AddSingleton(schema.DataSource);
                services.Configure<PostgresOptions>(options => options.Schema = schema.Name);
            },
            async host =>
            {
                await PageExamples.EnqueueAsync(host.Services.GetRequiredService<IOutputBuffer>(), new World([new Npc("north"), new Npc("south")])).WithinDeadline();

                Assert.Equal(2, await schema.ScalarAsync<long>($"SELECT count(*) FROM {schema.Quoted}.messages"));
            });
    }

    [Fact]
    public async Task The_PostgreSQL_readmes_outbox_starts()
    {
        await using var schema = await postgres.NewSchemaAsync();

        await AssertHealthyAsync(services =>
        {
            PageExamples.AddOutbox(services, new RabbitMqOptions());
            services.AddSingleton(schema.DataSource);
            services.Configure<PostgresOutboxOptions>(options => options.Schema = schema.Name);
        });
    }

    private static IConfiguration Configure(string key, string value) => new ConfigurationBuilder().AddInMemoryCollection([new(key, value)]).Build();

    private static Task AssertHealthyAsync(Action<IServiceCollection> add, Func<IHost, Task>? then = null) => RunAsync(add, async host =>
    {
        var checks = host.Services.GetRequiredService<HealthCheckService>();
        try
        {
            await Until.TrueAsync(async () => (await checks.CheckHealthAsync()).Status == HealthStatus.Healthy);
        }
        catch (TimeoutException)
        {
            // Which check it was, and what it says.
            Assert.All((await checks.CheckHealthAsync()).Entries, static entry => Assert.Equal((entry.Key, HealthStatus.Healthy, entry.Value.Description), (entry.Key, entry.Value.Status, entry.Value.Description)));
            throw;
        }

        await (then?.Invoke(host) ?? Task.CompletedTask);
    });

    private static async Task RunAsync(Action<IServiceCollection> add, Func<IHost, Task> then)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging().AddSingleton<MySockets>();
        add(application.Services);
        using var host = application.Build();
        await host.StartAsync().WithinDeadline();
        await then(host);
        await host.StopAsync().WithinDeadline();
    }
}
