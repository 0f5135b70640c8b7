using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.DependencyInjection.Extensions;

namespace BatchKit;

/// <summary>Registers what belongs to one buffer, and tells what is registered already.</summary>
internal static class KeyedServices
{
    /// <summary>Registers a singleton with the buffer's name as its key; that of the unnamed buffer can be injected without a key too.</summary>
    /// <typeparam name="T">The service's type.</typeparam>
    /// <param name="services">The services.</param>
    /// <param name="name">The buffer's name.</param>
    /// <param name="create">Creates it from the services and the name.</param>
    public static void Add<T>(IServiceCollection services, string name, Func<IServiceProvider, string, T> create)
        where T : class
    {
        services.AddKeyedSingleton(name, (provider, key) => create(provider, (string)key!));
        if (name.Length == 0)
            services.TryAdd(new Alias(typeof(T), key: null, typeof(T), name));
    }

    /// <summary>Registers a service of a buffer as what it implements, too.</summary>
    /// <typeparam name="TOther">What it implements.</typeparam>
    /// <typeparam name="T">The service's type.</typeparam>
    /// <param name="services">The services.</param>
    /// <param name="name">The buffer's name.</param>
    public static void AddAs<TOther, T>(IServiceCollection services, string name)
        where TOther : class
        where T : class, TOther
    {
        services.Add(new Alias(typeof(TOther), name, typeof(T), name));
        if (name.Length == 0)
            services.TryAdd(new Alias(typeof(TOther), key: null, typeof(T), name));
    }

    /// <summary>Gets the transport of a buffer's route, while the buffer is created.</summary>
    /// <remarks>A container disposes in reverse order what its registrations returned, one that several returned with the last of them: that one, too, must come before the buffer, which drains into the transport.</remarks>
    /// <typeparam name="T">The transport.</typeparam>
    /// <param name="provider">The services that the buffer is created from.</param>
    /// <param name="services">Their registrations.</param>
    /// <param name="name">The buffer's name.</param>
    public static T GetTransport<T>(IServiceProvider provider, IServiceCollection services, string name)
        where T : class
    {
        foreach (var alias in services.OfType<Alias>().Where(alias => alias.Target == typeof(T) && alias.Name == name))
        {
            // The application's own registration, which replaces it, is left alone.
            if (services.Last(other => other.ServiceType == alias.ServiceType && Equals(other.ServiceKey, alias.ServiceKey)) == alias)
                _ = alias.IsKeyedService ? provider.GetKeyedService(alias.ServiceType, alias.ServiceKey) : provider.GetService(alias.ServiceType);
        }

        return provider.GetRequiredKeyedService<T>(name);
    }

    /// <summary>True when the services have a keyed service of that type with the key.</summary>
    /// <typeparam name="T">The service's type.</typeparam>
    /// <param name="services">The services.</param>
    /// <param name="key">The name of the buffer, or of whatever the service belongs to.</param>
    public static bool Contain<T>(IServiceCollection services, string key) =>
        services.Any(service => service.IsKeyedService && service.ServiceType == typeof(T) && Equals(service.ServiceKey, key));

    /// <summary>A second registration of a buffer's service.</summary>
    private sealed class Alias(Type type, string? key, Type target, string name)
        : ServiceDescriptor(type, key, (provider, _) => provider.GetRequiredKeyedService(target, name), ServiceLifetime.Singleton)
    {
        public Type Target => target;

        public string Name => name;
    }
}
