using BatchKit.Mqtt;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using SensorHub.Measuring;
using SensorHub.Publishing;
using SensorHub.View;
using SensorHub.World;

namespace SensorHub.Hosting;

/// <summary>Builds the host of the hub.</summary>
internal static class HubApplication
{
    /// <summary>The capacity of the buffer: about half a minute of changes without the broker.</summary>
    public const long MaxBufferedBytes = 256L * 1024 * 1024;

    public static IHost Build(HubOptions options)
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        var events = new SampleLog();
        builder.Logging.AddProvider(events).AddFilter("Microsoft", LogLevel.None);
        builder.Services.AddSingleton(events);
        builder.Services.AddSingleton(options);
        AddBuffer(builder.Services, options);
        AddHub(builder.Services, options);
        return builder.Build();
    }

    /// <summary>Adds all that a change passes through: the buffer, the transport, the receiver and the meter.</summary>
    private static void AddBuffer(IServiceCollection services, HubOptions options)
    {
        // It counts during the whole run, so all batches share one object.
        services.AddSingleton<ArrivalMeter>();
        services.AddBatchKit(output =>
            {
                // When the buffer is full, the oldest values are dropped, because newer ones replace them.
                output.MaxBufferedBytes = MaxBufferedBytes;
                output.Overflow = OverflowPolicy.DropOldest;
                output.DrainTimeout = TimeSpan.FromSeconds(10);
            })
            .UseMqtt(mqtt => Set(mqtt, options))
            .ReceiveFromMqtt<ArrivalMeter>();
    }

    private static void Set(MqttOptions mqtt, HubOptions options)
    {
        mqtt.Server = options.Server;
        mqtt.UserName = options.UserName;
        mqtt.Password = options.Password;
        mqtt.Version = options.Version;
        mqtt.QualityOfService = options.QualityOfService;
        mqtt.ClientId = options.ClientId;
        mqtt.SessionExpiry = TimeSpan.FromMinutes(1);
        mqtt.PublishTimeout = TimeSpan.FromSeconds(10);
        mqtt.MaxReconnectDelay = TimeSpan.FromSeconds(1);
        mqtt.Subscriptions.Add(new MqttSubscription { Filter = $"{GameWorld.TopicRoot}/#", QualityOfService = options.QualityOfService });
    }

    private static void AddHub(IServiceCollection services, HubOptions options)
    {
        services.AddSingleton<RunClock>();
        services.AddSingleton(provider => new GameWorld(options.Topics, provider.GetRequiredService<RunClock>()));
        services.AddSingleton<HubMeter>();
        services.AddSingleton<HubConnections>();
        services.AddSingleton<HubHealth>();
        services.AddHostedService(provider => provider.GetRequiredService<HubHealth>());
        services.AddSingleton<IScreen, HubScreen>();
        services.AddSingleton<TickLoop>();
        services.AddSingleton<HubRun>();
        if (options.IsBaseline)
            services.AddSingleton<IChangePublisher, BaselinePublisher>();
        else
            services.AddSingleton<IChangePublisher, ScopePublisher>();
        if (options.IsPlain || Console.IsOutputRedirected)
            services.AddSingleton<IView, PlainView>();
        else
            services.AddSingleton<IView, LiveView>();
    }
}
