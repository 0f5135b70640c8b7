using System.Globalization;
using System.Net;
using System.Reflection;
using System.Text;
using BatchKit.Broadcast;
using BatchKit.MassTransit;
using BatchKit.Mqtt;
using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using BatchKit.Sessions;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.Architecture.Tests;

/// <summary>Options that are read from a section: an error says which option of which section it is about.</summary>
public sealed class OptionsSectionTests
{
    private const string OfBuffer = " It is set for the output buffer 'game' in section 'Game:Adapter'.";
    private const string OfOther = " It is set for the output buffer 'other' in section 'Game:Adapter'.";
    private const string OfQueue = " It is set for the queue 'tasks' in section 'Game:Adapter'.";

    public static TheoryData<string, string, string?, string, Action<BatchKitBuilder, IConfiguration>> Adapters => new()
    {
        { "OutputBufferOptions.MaxBatchMessages", "MaxBatchMessages", "0", OfOther, (builder, section) => builder.Services.AddBatchKit("other", section) },
        { "OutputBufferOptions.MaxBufferedBytes", "MaxBufferedBytes", "1 MB", OfOther, (builder, section) => builder.Services.AddBatchKit("other", section) },
        { "OutputBufferOptions.FrameKeys.0", "FrameKeys:0", "secret!", OfOther, (builder, section) => builder.Services.AddBatchKit("other", section) },
        { "PostgresOptions.MaxStatementBytes", "MaxStatementBytes", "0", OfBuffer, (builder, section) => builder.UsePostgres(section) },
        { "PostgresOptions.MaxStatementBytes", "MaxStatementBytes", "many", OfBuffer, (builder, section) => builder.UsePostgres(section) },
        { "PostgresOptions.Schema", "Schema", "", OfBuffer, (builder, section) => builder.UsePostgres(section) },
        { "PostgresOutboxOptions.BatchSize", "BatchSize", "0", OfBuffer, (builder, section) => builder.UsePostgresOutbox(_ => null!, section) },
        { "PostgresQueueReceiverOptions.MaxAttempts", "MaxAttempts", "0", OfQueue, (builder, section) => builder.ReceiveFromPostgres("tasks", _ => null!, section) },
        { "PostgresQueueReceiverOptions.MaxAttempts", "MaxAttempts", "0", OfQueue, (builder, section) => builder.Services.AddPostgresQueueReceiver("tasks", _ => null!, section) },
        { "PostgresQueueReceiverOptions.MaxAttempts", "MaxAttempts", "some", OfQueue, (builder, section) => builder.Services.AddPostgresQueueReceiver("tasks", _ => null!, section) },
        { "RabbitMqOptions.Prefetch", "Prefetch", "0", OfBuffer, (builder, section) => builder.UseRabbitMq(section) },
        { "RabbitMqOptions.Prefetch", "Prefetch", "many", OfBuffer, (builder, section) => builder.ReceiveFromRabbitMq(_ => null!, section) },
        { "RabbitMqOptions.Hosts[0]", "Hosts:0", "amqp//", OfBuffer, (builder, section) => builder.UseRabbitMq(section) },
        { "MassTransitOptions.PublishTimeout", "PublishTimeout", "00:00:00", OfBuffer, (builder, section) => builder.UseMassTransit(section) },
        { "MassTransitOptions.PublishTimeout", "PublishTimeout", "5 s", OfBuffer, (builder, section) => builder.ReceiveFromMassTransit(_ => null!, section) },
        { "MassTransitOptions.RabbitMq.Port", "RabbitMq:Port", "0", OfBuffer, (builder, section) => builder.UseMassTransit(section) },
        { "MassTransitOptions.RabbitMq.Port", "RabbitMq:Port", "amqp", OfBuffer, (builder, section) => builder.UseMassTransit(section) },
        { "MqttOptions.Server", "Server", "mqtt://name:secret@host:port", OfBuffer, (builder, section) => builder.UseMqtt(section) },
        { "MqttOptions.QualityOfService", "QualityOfService", "Twice", OfBuffer, (builder, section) => builder.UseMqtt(section) },
        { "MqttOptions.Subscriptions", "Subscriptions:0:Filter", "a/#/b", OfBuffer, (builder, section) => builder.ReceiveFromMqtt(_ => null!, section) },
        { "SessionOptions.MaxSessions", "MaxSessions", "0", OfBuffer, (builder, section) => builder.UseSessions(section) },
        { "BroadcastOptions.MaxConnections", "MaxConnections", "0", OfBuffer, (builder, section) => builder.UseBroadcast(section) },
        { "BroadcastOptions.TextInputLimits.RecordBurst", "TextInputLimits:RecordBurst", "0", OfBuffer, (builder, section) => builder.UseBroadcast(section) },
        { "BroadcastOptions.TrustedProxies.0", "TrustedProxies:0", "10.0.0.300", OfBuffer, (builder, section) => builder.AddBroadcast(section) },
        { "BroadcastOptions.TrustedProxies", "TrustedProxies", "10.0.0.300", OfBuffer, (builder, section) => builder.AddBroadcast(section) },
        { "BroadcastOptions.TextInputLimits", "TextInputLimits", "secret", OfBuffer, (builder, section) => builder.AddBroadcast(section) },
        { "MqttOptions.TopicRules.0", "TopicRules:0", "a/#", OfBuffer, (builder, section) => builder.UseMqtt(section) },
        { "MqttOptions.TopicRules.0", "TopicRules:0", null, OfBuffer, (builder, section) => builder.UseMqtt(section) },
        { "MqttOptions.Subscriptions", "Subscriptions:0", null, OfBuffer, (builder, section) => builder.ReceiveFromMqtt(_ => null!, section) },
        { "RabbitMqOptions.Hosts[0]", "Hosts:0", null, OfBuffer, (builder, section) => builder.UseRabbitMq(section) },
        { "MassTransitOptions.RabbitMq", "RabbitMq", "amqp://name:secret@host", OfBuffer, (builder, section) => builder.UseMassTransit(section) },
        { "MassTransitOptions.RabbitMq", "RabbitMq", null, OfBuffer, (builder, section) => builder.UseMassTransit(section) },
    };

    public static TheoryData<Type, Action<BatchKitBuilder, IConfiguration>> Options => new()
    {
        { typeof(OutputBufferOptions), (builder, section) => builder.Services.AddBatchKit("other", section) },
        { typeof(PostgresOptions), (builder, section) => builder.UsePostgres(section) },
        { typeof(PostgresOutboxOptions), (builder, section) => builder.UsePostgresOutbox(_ => null!, section) },
        { typeof(PostgresQueueReceiverOptions), (builder, section) => builder.Services.AddPostgresQueueReceiver("tasks", _ => null!, section) },
        { typeof(RabbitMqOptions), (builder, section) => builder.UseRabbitMq(section) },
        { typeof(MassTransitOptions), (builder, section) => builder.UseMassTransit(section) },
        { typeof(MqttOptions), (builder, section) => builder.UseMqtt(section) },
        { typeof(SessionOptions), (builder, section) => builder.UseSessions(section) },
        { typeof(BroadcastOptions), (builder, section) => builder.UseBroadcast(section) },
    };

    [Theory]
    [MemberData(nameof(Adapters))]
    public async Task An_error_begins_with_the_option_and_ends_with_the_section(string option, string key, string? value, string origin, Action<BatchKitBuilder, IConfiguration> use)
    {
        var services = new ServiceCollection();
        use(services.AddBatchKit("game"), Section(new() { [key] = value }));
        await using var provider = services.BuildServiceProvider();

        var exception = await Assert.ThrowsAsync<OptionsValidationException>(() => provider.GetRequiredService<IAsyncStartupValidator>().ValidateAsync(TestContext.Current.CancellationToken));

        Assert.All(exception.Failures, failure =>
        {
            Assert.StartsWith(option, failure, StringComparison.Ordinal);
            Assert.EndsWith(origin, failure, StringComparison.Ordinal);
            Assert.DoesNotContain("secret", failure, StringComparison.Ordinal);
        });
    }

    [Theory]
    [MemberData(nameof(Options))]
    public void A_section_can_set_every_option_that_is_a_number_a_text_a_switch_or_a_time(Type type, Action<BatchKitBuilder, IConfiguration> use)
    {
        var expected = Activator.CreateInstance(type)!;
        var settings = new Dictionary<string, string?>();
        Change(expected, prefix: "", settings);
        var services = new ServiceCollection();
        use(services.AddBatchKit("game"), Section(settings));

        var actual = Read(type, services);

        Assert.Equal(Texts(expected), Texts(actual));
    }

    [Fact]
    public void Lists_of_a_section_replace_the_ones_before()
    {
        var section = Section(new() { ["Hosts:0"] = "one", ["Hosts:1"] = "two:5673", ["RabbitMq:Hosts"] = "one", ["TrustedProxies:0"] = "10.0.0.0/8", ["Subscriptions:0:Filter"] = "a", ["TopicRules:0:Retain"] = "true" });
        var services = new ServiceCollection();
        services.AddBatchKit("rabbitmq").UseRabbitMq(section).ReceiveFromRabbitMq(_ => null!, section);
        services.AddBatchKit("masstransit").UseMassTransit(section).ReceiveFromMassTransit(_ => null!, section);
        services.AddBatchKit("mqtt").UseMqtt(section).ReceiveFromMqtt(_ => null!, section);
        services.AddBatchKit("broadcast").AddBroadcast(section).UseBroadcast(section);
        using var provider = services.BuildServiceProvider();

        var rabbitMq = provider.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get("rabbitmq");
        var massTransit = provider.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get("masstransit");
        var mqtt = provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("mqtt");
        var broadcast = provider.GetRequiredService<IOptionsMonitor<BroadcastOptions>>().Get("broadcast");

        Assert.Equal(["one", "two:5673"], rabbitMq.Hosts);
        Assert.Equal(["one"], massTransit.RabbitMq?.Hosts);
        Assert.Equal("a", Assert.Single(mqtt.Subscriptions).Filter);
        Assert.True(Assert.Single(mqtt.TopicRules).Retain);
        Assert.Equal([IPNetwork.Parse("10.0.0.0/8")], broadcast.TrustedProxies);
    }

    [Fact]
    public void One_value_in_the_place_of_a_list_is_its_only_element()
    {
        var section = Section(new() { ["Hosts"] = "one", ["RabbitMq:Hosts"] = "two", ["TrustedProxies"] = "10.0.0.0/8", ["Subscriptions"] = "a/#" });
        var elements = Section(new() { ["Subscriptions:0"] = "b/#" });
        var services = new ServiceCollection();
        services.AddBatchKit("game").UseRabbitMq(section).ReceiveFromMassTransit(_ => null!, section).ReceiveFromMqtt(_ => null!, section).AddBroadcast(section);
        services.AddBatchKit("elements").ReceiveFromMqtt(_ => null!, elements);
        using var provider = services.BuildServiceProvider();

        Assert.Equal(["one"], provider.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get("game").Hosts);
        Assert.Equal(["two"], provider.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get("game").RabbitMq!.Hosts);
        Assert.Equal("a/#", Assert.Single(provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("game").Subscriptions).Filter);
        Assert.Equal("b/#", Assert.Single(provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("elements").Subscriptions).Filter);
        Assert.Equal([IPNetwork.Parse("10.0.0.0/8")], provider.GetRequiredService<IOptionsMonitor<BroadcastOptions>>().Get("game").TrustedProxies);
    }

    [Theory]
    [InlineData("null")]
    [InlineData("{}")]
    public void Limits_that_are_null_are_none(string json)
    {
        using var stream = new MemoryStream(Encoding.UTF8.GetBytes($$"""{ "Game": { "TextInputLimits": {{json}}, "BinaryInputLimits": { "RecordBurst": 7 } } }"""));
        var services = new ServiceCollection();
        services.AddBatchKit().AddBroadcast(new ConfigurationBuilder().AddJsonStream(stream).Build().GetSection("Game"));
        using var provider = services.BuildServiceProvider();

        var options = provider.GetRequiredService<IOptions<BroadcastOptions>>().Value;

        Assert.Null(options.TextInputLimits);
        Assert.Equal(7, options.BinaryInputLimits?.RecordBurst);
    }

    [Theory]
    [InlineData("null")]
    [InlineData("{}")]
    public void Settings_of_a_broker_that_are_empty_are_refused(string json)
    {
        using var stream = new MemoryStream(Encoding.UTF8.GetBytes($$"""{ "Game": { "RabbitMq": {{json}} } }"""));
        var services = new ServiceCollection();
        services.AddBatchKit().UseMassTransit(new ConfigurationBuilder().AddJsonStream(stream).Build().GetSection("Game"));
        using var provider = services.BuildServiceProvider();

        var exception = Assert.Throws<OptionsValidationException>(() => provider.GetRequiredService<IOptions<MassTransitOptions>>().Value);

        Assert.StartsWith("MassTransitOptions.RabbitMq could not be read: 'Game:RabbitMq' is empty.", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void An_unknown_key_in_an_element_and_in_settings_inside_others_is_warned_of()
    {
        var section = Section(new()
        {
            ["TopicRules:0:Fliter"] = "a/#",
            ["Subscriptions:0:Filter"] = "a/#",
            ["Subscriptions:0:Qos"] = "1",
            ["TextInputLimits:RecordsPerSecnd"] = "5",
            ["BinaryInputLimits:ByteBurts"] = "5",
            ["RabbitMq:Hots"] = "broker",
        });
        var services = new ServiceCollection();
        using var log = new LogCollector();
        services.AddSingleton<ILoggerFactory>(log);
        services.AddBatchKit("game").UseMqtt(section).ReceiveFromMassTransit(_ => null!, section).AddBroadcast(section);
        using var provider = services.BuildServiceProvider();

        _ = provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("game");

        var unknown = log.Entries.Where(static entry => entry.Id == 12).Select(static entry => entry.Text.Split('\'')[1].Split("Game:Adapter:")[1]);
        Assert.Equal(["BinaryInputLimits:ByteBurts", "RabbitMq:Hots", "Subscriptions:0:Qos", "TextInputLimits:RecordsPerSecnd", "TopicRules:0:Fliter"], unknown.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void A_change_in_code_of_one_direction_is_kept_when_the_other_has_the_same_section()
    {
        var section = Section(new() { ["Password"] = "dev", ["TopicRules:0:Filter"] = "a/#", ["MaxConnections"] = "10", ["PublishTimeout"] = "00:00:01" });
        var services = new ServiceCollection();
        services.AddBatchKit("rabbitmq").UseRabbitMq(section, static options => options.Password = "vault").ReceiveFromRabbitMq(_ => null!, section);
        services.AddBatchKit("mqtt").UseMqtt(section, static options => options.TopicRules.Add(new() { Filter = "b/#" })).ReceiveFromMqtt(_ => null!, section);
        services.AddBatchKit("masstransit").UseMassTransit(section, static options => options.PublishTimeout *= 2).ReceiveFromMassTransit(_ => null!, section);
        services.AddBatchKit("broadcast").AddBroadcast(section, static options => options.MaxConnections = 99).UseBroadcast(section);
        using var provider = services.BuildServiceProvider();

        Assert.Equal("vault", provider.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get("rabbitmq").Password);
        Assert.Equal(["a/#", "b/#"], provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("mqtt").TopicRules.Select(static rule => rule.Filter));
        Assert.Equal(TimeSpan.FromSeconds(2), provider.GetRequiredService<IOptionsMonitor<MassTransitOptions>>().Get("masstransit").PublishTimeout);
        Assert.Equal(99, provider.GetRequiredService<IOptionsMonitor<BroadcastOptions>>().Get("broadcast").MaxConnections);
    }

    [Fact]
    public void A_change_in_code_comes_after_the_section()
    {
        var section = Section(new() { ["Prefetch"] = "2", ["Server"] = "mqtts://broker" });
        var services = new ServiceCollection();
        services.AddBatchKit("rabbitmq").UseRabbitMq(section, options => options.Prefetch *= 2);
        services.AddBatchKit("mqtt").UseMqtt(section);
        using var provider = services.BuildServiceProvider();

        Assert.Equal(4, provider.GetRequiredService<IOptionsMonitor<RabbitMqOptions>>().Get("rabbitmq").Prefetch);
        Assert.Equal(new Uri("mqtts://broker"), provider.GetRequiredService<IOptionsMonitor<MqttOptions>>().Get("mqtt").Server);
    }

    private static IConfigurationSection Section(Dictionary<string, string?> settings) =>
        new ConfigurationBuilder().AddInMemoryCollection(settings.Select(setting => KeyValuePair.Create($"Game:Adapter:{setting.Key}", setting.Value))).Build().GetSection("Game:Adapter");

    // Without the rules, which not every changed value keeps.
    private static object Read(Type type, ServiceCollection services)
    {
        services.AddOptions();
        foreach (var rules in services.Where(service => service.ServiceType == typeof(IValidateOptions<>).MakeGenericType(type)).ToArray())
            services.Remove(rules);
        using var provider = services.BuildServiceProvider();
        var name = type == typeof(PostgresQueueReceiverOptions) ? "tasks" : type == typeof(OutputBufferOptions) ? "other" : "game";
        return typeof(IOptionsMonitor<>).MakeGenericType(type).GetMethod("Get")!.Invoke(provider.GetRequiredService(typeof(IOptionsMonitor<>).MakeGenericType(type)), [name])!;
    }

    // Gives every simple setting, and those of the settings inside, another value, and notes it.
    private static void Change(object options, string prefix, Dictionary<string, string?> settings)
    {
        foreach (var property in Settings(options.GetType()))
        {
            var type = Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType;
            if (IsGroup(type))
            {
                property.SetValue(options, property.GetValue(options) ?? Activator.CreateInstance(type));
                Change(property.GetValue(options)!, $"{prefix}{property.Name}:", settings);
                continue;
            }

            var value = Another(type, property.GetValue(options));
            property.SetValue(options, value);
            settings[prefix + property.Name] = Convert.ToString(value, CultureInfo.InvariantCulture);
        }
    }

    private static SortedDictionary<string, string?> Texts(object options, string prefix = "")
    {
        var texts = new SortedDictionary<string, string?>(StringComparer.Ordinal);
        foreach (var property in Settings(options.GetType()))
        {
            if (property.GetValue(options) is { } group && IsGroup(group.GetType()))
            {
                foreach (var (key, text) in Texts(group, $"{prefix}{property.Name}:"))
                    texts[key] = text;
            }
            else
            {
                texts[prefix + property.Name] = Convert.ToString(property.GetValue(options), CultureInfo.InvariantCulture);
            }
        }

        return texts;
    }

    private static IEnumerable<PropertyInfo> Settings(Type type) => type.GetProperties().Where(property => property.SetMethod?.IsPublic == true
        && (Nullable.GetUnderlyingType(property.PropertyType) ?? property.PropertyType) is var inner
        && (inner.IsEnum || inner == typeof(string) || inner == typeof(TimeSpan) || inner == typeof(Uri) || inner.IsPrimitive || IsGroup(inner)));

    private static bool IsGroup(Type type) => type is { IsClass: true, Namespace: { } space } && space.StartsWith("BatchKit", StringComparison.Ordinal) && type.GetConstructor([]) is not null;

    private static object Another(Type type, object? value) =>
        type == typeof(string) ? $"another {value}"
        : type == typeof(TimeSpan) ? (value is TimeSpan time ? time : default) + TimeSpan.FromSeconds(1)
        : type == typeof(Uri) ? new Uri("mqtt://another")
        : type == typeof(bool) ? value is not true
        : type.IsEnum ? Enum.GetValues(type).Cast<object>().First(other => !other.Equals(value))
        : Convert.ChangeType(Convert.ToInt64(value ?? 0, CultureInfo.InvariantCulture) + 1, type, CultureInfo.InvariantCulture);
}
