using System.Collections;
using System.Net;
using System.Net.Security;
using System.Reflection;
using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Nats;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Sessions;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Options;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Settings out of their range: each option of each type alone, then the rules about several.</summary>
internal static class OptionsErrors
{
    public static async Task CollectAsync(ErrorCollector errors)
    {
        await CollectCoreAsync(errors);
        await CollectAsync<RabbitMqOptions>(errors, static (builder, configure) => builder.UseRabbitMq(configure),
            static options => options.Hosts = [], static options => options.Hosts = ["amqp://broker"], static options => options.MaxReconnectDelay = TimeSpan.FromMilliseconds(100),
            static options => (options.QueueType, options.Durable) = (RabbitMqQueueType.Quorum, false));
        await CollectAsync<MassTransitOptions>(errors, static (builder, configure) => builder.UseMassTransit(configure),
            static options => (options.Bus, options.RabbitMq) = (static _ => null!, new MassTransitRabbitMqOptions()), static options => (options.UseQuorumQueues, options.Durable) = (true, false),
            static options => options.RabbitMq = new MassTransitRabbitMqOptions { Hosts = ["amqp://broker"] }, static options => options.RabbitMq = new MassTransitRabbitMqOptions { Port = 0 });
        await CollectMqttAsync(errors);
        await CollectAsync<NatsOptions>(errors, static (builder, configure) => builder.UseNats(configure), static options => options.Url = "http://nats.example", static options => options.MaxAge = TimeSpan.Zero);
        await CollectAsync<BroadcastOptions>(errors, static (builder, configure) => builder.UseBroadcast(configure),
            static options => (options.MaxConnections, options.MaxConnectionsPerAddress) = (10, 11), static options => options.TextInputLimits = new InputLimits { RecordBurst = 0 });
        await CollectEachAsync<BroadcastListenerOptions>(errors, Check<BroadcastListenerOptions>(static options => new BroadcastListener(new BroadcastTransport(), options, static _ => null!)),
            static options => options.Protocol = ClientProtocol.WebSocket, static options => options.Tls = new SslServerAuthenticationOptions());
        await CollectAsync<PostgresOptions>(errors, static (builder, configure) => builder.UsePostgres(configure),
            static options => options.Schema = new string('s', 64), static options => options.FrameQueue = "a\0b", static options => options.QueueShards["tasks"] = -1);
        await CollectAsync<PostgresOutboxOptions>(errors, static (builder, configure) => builder.UsePostgresOutbox(static _ => null!, configure));
        await CollectAsync<PostgresQueueReceiverOptions>(errors, static (builder, configure) => builder.Services.AddPostgresQueueReceiver("tasks", static _ => null!, configure),
            static options => options.MaxRetryDelay = TimeSpan.FromMilliseconds(1), static options => options.MaxReconnectDelay = TimeSpan.FromMilliseconds(20),
            static options => options.ListenConnectionString = "?", static options => (options.Prefetch, options.Shards) = (1000, 2), static options => options.Prefetch = 1);
    }

    private static async Task CollectCoreAsync(ErrorCollector errors)
    {
        await CollectAsync<OutputBufferOptions>(errors, static (builder, configure) => builder.Services.AddBatchKit("game", configure),
            static options => options.MaxMessageBytes = (int)Math.Min(int.MaxValue, options.MaxBufferedBytes), static options => options.MaxRetryDelay = TimeSpan.FromMilliseconds(1),
            static options => options.Linger = options.MaxScopeAge = TimeSpan.FromSeconds(5), static options => options.FrameKeys.Add([1, 2, 3]));
        await CollectAsync<SessionOptions>(errors, static (builder, configure) => builder.UseSessions(configure));
        await CollectEachAsync<BatchReceiverOptions>(errors, Check<BatchReceiverOptions>(static options => new BatchReceiver(new CollectingTransport(), options)), static options => options.MaxRetryDelay = TimeSpan.FromMilliseconds(1));
        await CollectEachAsync<FrameTransportOptions>(errors, Check<FrameTransportOptions>(static options => new FrameTransport(static (_, _) => ValueTask.CompletedTask, options)));
    }

    private static Task CollectMqttAsync(ErrorCollector errors) => CollectAsync<MqttOptions>(errors, static (builder, configure) => builder.UseMqtt(configure),
        static options => options.Server = new Uri("broker.example", UriKind.Relative), static options => options.Server = new Uri("http://broker.example"),
        static options => options.Server = new Uri("mqtt://name:secret@broker.example"), static options => options.MaxReconnectDelay = TimeSpan.FromMilliseconds(100),
        static options => options.QualityOfService = MqttQualityOfService.ExactlyOnce, static options => options.Will = new MqttWill(new MqttMessage("a/#", default)),
        static options => options.TopicRules.Add(new MqttTopicRule { Filter = "a/#/b" }), static options => options.Subscriptions.Add(new MqttSubscription { Filter = "a+" }),
        static options => options.EnvelopePrefix = "a/+", static options =>
        {
            options.EnvelopePrefix = "game";
            options.Subscriptions.Add(new MqttSubscription { Filter = "a" });
        });

    private static Task CollectAsync<TOptions>(ErrorCollector errors, Action<BatchKitBuilder, Action<TOptions>> use, params IEnumerable<Action<TOptions>> broken)
        where TOptions : class, new() => CollectEachAsync(errors, async configure =>
        {
            var services = new ServiceCollection();
            use(services.AddBatchKit(), configure);
            await using var provider = services.BuildServiceProvider();
            await provider.GetRequiredService<IAsyncStartupValidator>().ValidateAsync(TestContext.Current.CancellationToken);
        }, broken);

    private static Func<Action<TOptions>, Task> Check<TOptions>(Func<TOptions, object> create)
        where TOptions : class, new() => configure =>
        {
            var options = new TOptions();
            configure(options);
            create(options);
            return Task.CompletedTask;
        };

    private static async Task CollectEachAsync<TOptions>(ErrorCollector errors, Func<Action<TOptions>, Task> check, params IEnumerable<Action<TOptions>> broken)
        where TOptions : class, new()
    {
        var texts = new List<string>();
        foreach (var change in Breaking<TOptions>().Concat(broken))
        {
            try
            {
                await check(change);
            }
            catch (OptionsValidationException exception)
            {
                texts.AddRange(exception.Failures);
            }
        }

        errors.Add(typeof(TOptions).Name, texts.Distinct(StringComparer.Ordinal));
    }

    // Each setting alone at a value that no rule allows.
    private static IEnumerable<Action<TOptions>> Breaking<TOptions>() =>
        from property in typeof(TOptions).GetProperties()
        where property.SetMethod is { IsPublic: true } && Bad(property) is not null
        select new Action<TOptions>(options => property.SetValue(options, Bad(property)!.Value));

    private static StrongBox? Bad(PropertyInfo property)
    {
        var type = Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType;
        var isNullable = new NullabilityInfoContext().Create(property).WriteState == NullabilityState.Nullable;
        return type == typeof(int) ? new StrongBox(int.MinValue)
            : type == typeof(long) ? new StrongBox(long.MinValue)
            : type == typeof(TimeSpan) ? new StrongBox(TimeSpan.MinValue)
            : type == typeof(string) ? new StrongBox("")
            : type.IsEnum ? new StrongBox(Enum.ToObject(type, 99))
            : !isNullable && (typeof(IEnumerable).IsAssignableFrom(type) || type == typeof(IPEndPoint) || type == typeof(Uri)) ? new StrongBox(null)
            : null;
    }

    private sealed record StrongBox(object? Value);
}
