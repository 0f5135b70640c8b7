using BatchKit.Testing;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt.Tests;

/// <summary>What is registered, without a broker.</summary>
public sealed class MqttBuilderExtensionsTests
{
    private readonly ServiceCollection _services = new();

    public MqttBuilderExtensionsTests() => _services.AddLogging();

    [Fact]
    public async Task Writes_linger_for_8_ms_in_batches_of_1000_by_default()
    {
        _services.AddBatchKit().UseMqtt();

        var options = await BufferOptionsAsync();

        Assert.Equal((TimeSpan.FromMilliseconds(8), 1000), (options.Linger, options.MaxBatchMessages));
    }

    [Fact]
    public async Task A_linger_of_zero_that_is_set_wins()
    {
        _services.AddBatchKit(options => options.Linger = TimeSpan.Zero).UseMqtt();

        Assert.Equal(TimeSpan.Zero, (await BufferOptionsAsync()).Linger);
    }

    [Fact]
    public async Task A_limit_that_is_bound_to_configuration_before_the_buffer_is_added_wins()
    {
        var configuration = new ConfigurationBuilder().AddInMemoryCollection([new("Linger", "00:00:00"), new("MaxBatchMessages", "7")]).Build();
        _services.Configure<OutputBufferOptions>(configuration);
        _services.AddBatchKit().UseMqtt();

        var options = await BufferOptionsAsync();

        Assert.Equal((TimeSpan.Zero, 7), (options.Linger, options.MaxBatchMessages));
    }

    [Fact]
    public async Task Only_the_buffer_that_uses_MQTT_lingers()
    {
        _services.AddBatchKit("mqtt").UseMqtt();
        _services.AddBatchKit("other").UseLocal(_ => new CollectingTransport());

        Assert.Equal(TimeSpan.FromMilliseconds(8), (await BufferOptionsAsync("mqtt")).Linger);
        Assert.Equal(TimeSpan.Zero, (await BufferOptionsAsync("other")).Linger);
    }

    [Fact]
    public async Task A_buffer_that_only_receives_keeps_its_own_default()
    {
        _services.AddBatchKit().UseLocal(_ => new CollectingTransport()).ReceiveFromMqtt(_ => new CollectingTransport());

        Assert.Equal(TimeSpan.Zero, (await BufferOptionsAsync()).Linger);
    }

    [Fact]
    public async Task The_publisher_is_the_buffers_transport_and_that_of_a_named_buffer_has_its_key()
    {
        _services.AddBatchKit().UseMqtt();
        _services.AddBatchKit("named").UseMqtt();
        await using var provider = _services.BuildServiceProvider();

        var publisher = provider.GetRequiredService<IMqttPublisher>();
        var named = provider.GetRequiredKeyedService<IMqttPublisher>("named");

        Assert.Same(provider.GetRequiredKeyedService<MqttTransport>(""), publisher);
        Assert.Same(provider.GetRequiredKeyedService<MqttTransport>("named"), named);
        Assert.NotSame(publisher, named);
    }

    [Fact]
    public async Task A_packet_limit_below_the_buffers_message_limit_stops_the_start_and_names_both()
    {
        _services.AddBatchKit().UseMqtt(options => options.MaxPacketBytes = 1024 * 1024);

        var exception = await StartAndFailAsync();

        Assert.Contains("MaxPacketBytes (1048576)", exception.Message, StringComparison.Ordinal);
        Assert.Contains("OutputBufferOptions.MaxMessageBytes (1048576)", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task In_envelope_mode_a_packet_limit_below_the_buffers_batch_limit_stops_the_start_and_names_both()
    {
        _services.AddBatchKit(options =>
        {
            options.MaxMessageBytes = 64 * 1024;
            options.MaxBatchBytes = 512 * 1024;
        }).UseMqtt(options =>
        {
            options.EnvelopePrefix = "game";
            options.MaxPacketBytes = 500_000;
        });

        var exception = await StartAndFailAsync();

        Assert.Contains("MqttOptions.MaxPacketBytes", exception.Message, StringComparison.Ordinal);
        Assert.Contains("MaxBatchBytes (524288)", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_setting_outside_its_range_stops_the_start_and_is_named()
    {
        _services.AddBatchKit().UseMqtt(options => options.PublishWindow = 0);

        Assert.Contains("PublishWindow", (await StartAndFailAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_receiver_without_subscriptions_or_envelopes_stops_the_start()
    {
        _services.AddBatchKit().UseMqtt().ReceiveFromMqtt(_ => new CollectingTransport());

        Assert.Contains("Subscriptions", (await StartAndFailAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_receiver_on_MQTT_3_1_1_needs_a_client_id_for_its_session()
    {
        _services.AddBatchKit().UseMqtt().ReceiveFromMqtt(_ => new CollectingTransport(), options =>
        {
            options.Version = MqttVersion.V311;
            options.EnvelopePrefix = "game";
        });

        Assert.Contains("ClientId", (await StartAndFailAsync()).Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Both_directions_of_a_buffer_share_one_health_check()
    {
        _services.AddBatchKit().UseMqtt().ReceiveFromMqtt(_ => new CollectingTransport());
        _services.AddBatchKit("named").UseMqtt().ReceiveFromMqtt(_ => new CollectingTransport());
        await using var provider = _services.BuildServiceProvider();

        var checks = provider.GetRequiredService<IOptions<HealthCheckServiceOptions>>().Value.Registrations.Select(registration => registration.Name);

        Assert.Equal(["batchkit", "batchkit-mqtt", "batchkit-mqtt-named", "batchkit-named"], checks.Order(StringComparer.Ordinal));
    }

    private async Task<OutputBufferOptions> BufferOptionsAsync(string name = "")
    {
        await using var provider = _services.BuildServiceProvider();
        return provider.GetRequiredService<IOptionsMonitor<OutputBufferOptions>>().Get(name);
    }

    private async Task<OptionsValidationException> StartAndFailAsync()
    {
        var builder = Host.CreateEmptyApplicationBuilder(settings: null);
        foreach (var service in _services)
            builder.Services.Add(service);
        using var host = builder.Build();
        return await RefusedStart.OfAsync(() => host.StartAsync().WithinDeadline());
    }
}
