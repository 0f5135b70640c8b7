using System.Globalization;
using System.Security.Cryptography.X509Certificates;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers.RabbitMQ;

/// <summary>One broker's folder: its configuration, data, ports, and how its programs are started there.</summary>
internal sealed class RabbitMqFolder
{
    private static readonly string[] ScriptFolders = ["/usr/lib/rabbitmq/bin", "/opt/rabbitmq/sbin", "/usr/local/sbin", "/opt/homebrew/sbin"];

    private readonly string _scripts;
    private readonly string _path;
    private readonly Dictionary<string, string> _environment;
    private readonly RabbitMqNodeNames _names;

    private RabbitMqFolder(string scripts, string path, RabbitMqNodeNames names, int listeningPort)
    {
        _scripts = scripts;
        _path = path;
        _names = names;
        Port = listeningPort;
        _environment = new Dictionary<string, string>(StringComparer.Ordinal)
        {
            ["HOME"] = path,
            ["ERL_EPMD_PORT"] = Text(names.PortMapperPort),
            ["ERL_EPMD_ADDRESS"] = "127.0.0.1",
            ["RABBITMQ_NODENAME"] = names.Own,
            ["RABBITMQ_NODE_PORT"] = Text(Port),
            ["RABBITMQ_DIST_PORT"] = Text(names.OwnPort),
            ["RABBITMQ_MNESIA_BASE"] = Path.Combine(path, "data"),
            ["RABBITMQ_LOG_BASE"] = Path.Combine(path, "log"),
            ["RABBITMQ_PID_FILE"] = PidFile,
            ["RABBITMQ_ENABLED_PLUGINS_FILE"] = Path.Combine(path, "plugins"),
            ["RABBITMQ_CONFIG_FILE"] = ConfigurationFile,
            ["RABBITMQ_ADVANCED_CONFIG_FILE"] = AdvancedFile,
            ["RABBITMQ_GENERATED_CONFIG_DIR"] = Path.Combine(path, "generated"),
        };
    }

    public int Port { get; }

    /// <summary>The ports for MQTT over TCP and over WebSockets; empty without MQTT.</summary>
    public int[] MqttPorts { get; private set; } = [];

    public string NodeName => _names.Own;

    private string PidFile => Path.Combine(_path, "pid");

    private string ConfigurationFile => Path.Combine(_path, "rabbitmq.conf");

    private string AdvancedFile => Path.Combine(_path, "advanced.config");

    public static string? FindScripts() =>
        Array.Find(ScriptFolders, folder => File.Exists(Path.Combine(folder, "rabbitmq-server")));

    /// <summary>Creates the folder of a broker.</summary>
    /// <param name="names">Its name and those of its cluster; null for a broker that stands alone.</param>
    /// <param name="hasMqtt">Whether it takes MQTT clients too, and over WebSockets.</param>
    public static RabbitMqFolder Create(RabbitMqNodeNames? names = null, bool hasMqtt = false)
    {
        var scripts = FindScripts() ?? throw new ServerStartException("RabbitMQ is not installed.");
        var ports = FreePort.Take(3);
        names ??= new RabbitMqNodeNames([ports[1]], Place: 0, PortMapperPort: ports[2], Cookie: null);
        var folder = new RabbitMqFolder(scripts, Directory.CreateTempSubdirectory("batchkit-rabbitmq-").FullName, names, ports[0]);
        // Unless told, it listens on all addresses.
        var lines = new List<string> { $"listeners.tcp.local = 127.0.0.1:{Text(folder.Port)}" };
        if (names.Cookie is { } cookie)
            folder.JoinCluster(cookie, lines);
        if (hasMqtt)
            lines.AddRange(folder.ListenForMqtt());
        File.WriteAllLines(folder.ConfigurationFile, lines);
        File.WriteAllText(Path.Combine(folder._path, "plugins"), hasMqtt ? "[rabbitmq_mqtt,rabbitmq_web_mqtt]." : "[].");
        return folder;
    }

    /// <summary>Starts Erlang's port mapper in the foreground: left to the broker it would start as a daemon that outlives the test.</summary>
    public ServerProcess StartPortMapper() =>
        ServerProcess.Start("epmd", ["-port", Text(_names.PortMapperPort), "-address", "127.0.0.1"], _environment);

    public ServerProcess StartBroker()
    {
        File.Delete(PidFile);
        return ServerProcess.Start(Path.Combine(_scripts, "rabbitmq-server"), [], _environment);
    }

    public ServerProcess StartControl(string[] arguments) =>
        ServerProcess.Start(Path.Combine(_scripts, "rabbitmqctl"), arguments, _environment);

    /// <summary>Has the broker evaluate Erlang expressions. Erlang's program for it connects to the broker's port of the cluster, and reads from its standard input.</summary>
    public ServerProcess StartEvaluation(string expressions) => ServerProcess.Start(
        "/bin/sh", ["-c", "printf '%s.\\n' \"$1\" | erl_call -e -R -address \"$2\"", "sh", expressions, $"127.0.0.1:{Text(_names.OwnPort)}"], _environment);

    /// <summary>Writes a certificate and its key into the folder; returns their paths.</summary>
    public (string Certificate, string Key) WriteCertificate(X509Certificate2 certificate)
    {
        var certificateFile = Path.Combine(_path, $"{certificate.Thumbprint}.pem");
        var keyFile = Path.Combine(_path, $"{certificate.Thumbprint}.key.pem");
        using var key = certificate.GetRSAPrivateKey() ?? throw new ArgumentException("The certificate has no RSA private key.", nameof(certificate));
        File.WriteAllText(certificateFile, certificate.ExportCertificatePem());
        File.WriteAllText(keyFile, key.ExportPkcs8PrivateKeyPem());
        return (certificateFile, keyFile);
    }

    public int ReadProcessId() => TryReadProcessId() ?? throw new InvalidOperationException("RabbitMQ is not running.");

    /// <summary>The Erlang process, which is a child of the script that was started.</summary>
    public int? TryReadProcessId() =>
        File.Exists(PidFile) && int.TryParse(File.ReadAllText(PidFile).AsSpan().Trim(), CultureInfo.InvariantCulture, out var id) ? id : null;

    public void Delete()
    {
        if (Directory.Exists(_path))
            Directory.Delete(_path, recursive: true);
    }

    private string[] ListenForMqtt()
    {
        MqttPorts = FreePort.Take(2);
        return [$"mqtt.listeners.tcp.1 = 127.0.0.1:{Text(MqttPorts[0])}", "web_mqtt.tcp.ip = 127.0.0.1", $"web_mqtt.tcp.port = {Text(MqttPorts[1])}"];
    }

    // The first node founds the cluster, the others find it by its name. Erlang declares a node dead after a quarter more than the tick time; a minute is its default.
    private void JoinCluster(string cookie, List<string> lines)
    {
        lines.Add("cluster_formation.peer_discovery_backend = classic_config");
        lines.AddRange(_names.All.Select((name, index) => $"cluster_formation.classic_config.nodes.{Text(index + 1)} = {name}"));
        lines.Add("cluster_partition_handling = autoheal");
        File.WriteAllText(AdvancedFile, $"[{{kernel, [{{net_ticktime, {Text(RabbitMqNodeNames.TickSeconds)}}}]}}].");
        var cookieFile = Path.Combine(_path, ".erlang.cookie");
        File.WriteAllText(cookieFile, cookie);
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(cookieFile, UnixFileMode.UserRead);
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}

/// <summary>The Erlang name of a broker, and of all nodes of its cluster, which differ in the port that they speak to each other on.</summary>
/// <param name="Ports">The port of each node.</param>
/// <param name="Place">Which of them this node is.</param>
/// <param name="PortMapperPort">The port mapper's, which all share.</param>
/// <param name="Cookie">The cluster's shared secret; null for a broker that stands alone.</param>
internal sealed record RabbitMqNodeNames(int[] Ports, int Place, int PortMapperPort, string? Cookie)
{
    public const int TickSeconds = 4;

    public int OwnPort => Ports[Place];

    public string Own => Name(OwnPort);

    public IEnumerable<string> All => Ports.Select(Name);

    private static string Name(int port) => string.Create(CultureInfo.InvariantCulture, $"batchkit{port}@localhost");
}
