namespace MudServer.Hosting;

/// <summary>The address of RabbitMQ, and the user.</summary>
internal sealed class BrokerAddress
{
    public string Host { get; private set; } = "localhost";

    public int Port { get; private set; } = 5672;

    public string UserName { get; private set; } = "guest";

    public string Password { get; private set; } = "guest";

    public string VirtualHost { get; private set; } = "/";

    /// <summary>True when a setting names the broker; false when it is the default.</summary>
    public bool IsSet { get; private set; }

    public void SetHost(string host) => Set(address => address.Host = host);

    public void SetPort(int port) => Set(address => address.Port = port);

    public void SetUserName(string userName) => Set(address => address.UserName = userName);

    public void SetPassword(string password) => Set(address => address.Password = password);

    public void SetVirtualHost(string virtualHost) => Set(address => address.VirtualHost = virtualHost);

    /// <summary>Reads <c>amqp://user:password@host:port/virtualhost</c>. Parts that it leaves out stay unchanged.</summary>
    public void SetUri(Uri uri)
    {
        IsSet = true;
        Host = uri.Host;
        if (!uri.IsDefaultPort)
            Port = uri.Port;
        var user = uri.UserInfo.Split(':', 2);
        if (user[0].Length > 0)
            UserName = Uri.UnescapeDataString(user[0]);
        if (user.Length > 1)
            Password = Uri.UnescapeDataString(user[1]);
        if (uri.AbsolutePath.Length > 1)
            VirtualHost = Uri.UnescapeDataString(uri.AbsolutePath[1..]);
    }

    private void Set(Action<BrokerAddress> change)
    {
        change(this);
        IsSet = true;
    }
}
